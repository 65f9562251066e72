"""Keeps the mail addresses of people, and the links by which they sign in once."""

import sqlalchemy as sa
from alembic import op

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("people", sa.Column("mail", sa.String()))
    op.add_column("people", sa.Column("link", sa.String()))
    op.add_column("people", sa.Column("link_until_s", sa.Float()))
    op.create_index("ix_people_link", "people", ["link"], unique=True)


def downgrade() -> None:
    op.drop_index("ix_people_link", "people")
    for name in ("link_until_s", "link", "mail"):
        op.drop_column("people", name)

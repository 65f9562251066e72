"""Keeps the people who sign in to the dashboard, and whose a token is."""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "people",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("reader", sa.String(), nullable=False),
        sa.Column("profiles", sa.JSON(), nullable=False, server_default="[]"),
        sa.Column("since_s", sa.Float(), nullable=False),
        sa.Column("password", sa.String()),
        sa.Column("invitation", sa.String(), unique=True),
        sa.Column("invited_until_s", sa.Float()),
        sa.Column("subject", sa.String()),
    )
    op.add_column("tokens", sa.Column("person", sa.String()))


def downgrade() -> None:
    op.execute(sa.text("DELETE FROM tokens WHERE person IS NOT NULL"))  # the version before would not end them
    op.drop_column("tokens", "person")
    op.drop_table("people")

"""Keeps which profiles a token reads, if it does not read all."""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tokens", sa.Column("profiles", sa.JSON(), nullable=False, server_default="[]"))


def downgrade() -> None:
    op.execute(sa.text("DELETE FROM tokens WHERE CAST(profiles AS TEXT) <> '[]'"))  # the version before would open all
    op.drop_column("tokens", "profiles")

"""Keeps the hash of what a client of the Fever API sends for a person's token."""

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0047"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tokens", sa.Column("fever_sha256", sa.String()))
    op.create_index("ix_tokens_fever_sha256", "tokens", ["fever_sha256"], unique=True)


def downgrade() -> None:
    op.drop_index("ix_tokens_fever_sha256", "tokens")
    op.drop_column("tokens", "fever_sha256")

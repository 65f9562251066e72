"""Stores the text of the pages of items whose feeds have only teasers."""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "articles",
        sa.Column("position", _NUMBER, sa.ForeignKey("items.position", ondelete="CASCADE"), primary_key=True),
        sa.Column("html", sa.Text(), nullable=False),
        sa.Column("failure", sa.Text(), nullable=False),
        sa.Column("fetched_s", sa.Float(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("articles")

"""Lets planners share probers, and hides what planners say to each other from the users of notifiers."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

_OF_PLANNERS = ("address", "secret", "runs")


def upgrade() -> None:
    op.create_table(
        "planners",
        sa.Column("member", sa.Integer(), primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in _OF_PLANNERS),
        sa.Column("rest_s", sa.Float(), nullable=False),
        sa.Column("probers", sa.JSON(), nullable=False),
    )
    for name in _OF_PLANNERS:
        op.drop_column("members", name)
    op.drop_table("leaders")


def downgrade() -> None:
    op.create_table(
        "leaders",
        sa.Column("role", sa.String(), primary_key=True),
        sa.Column("term", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("since_s", sa.Float(), nullable=False),
        sa.Column("rest_s", sa.Float()),
        sa.Column("probers", sa.JSON()),
        sa.Column("address", sa.String()),
    )
    for name in _OF_PLANNERS:
        op.add_column("members", sa.Column(name, sa.String()))
    op.drop_table("planners")

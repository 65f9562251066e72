"""What the planner knows: how it stands with each source, what is learned of all of them, and the plan of the week."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sources", sa.Column("record", sa.Text(), nullable=False, server_default=""))
    op.add_column("sources", sa.Column("hidden", sa.Float(), nullable=False, server_default="0"))
    op.add_column("sources", sa.Column("hidden_since_s", sa.Float(), nullable=False, server_default="0"))
    op.create_table(
        "fleet",
        sa.Column("fleet_id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("record", sa.Text(), nullable=False),
    )
    op.create_table(
        "plans",
        sa.Column("plan_id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("begun_s", sa.Float(), nullable=False),
        sa.Column("made_s", sa.Float(), nullable=False),
        sa.Column("settings", sa.String(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("plans")
    op.drop_table("fleet")
    with op.batch_alter_table("sources") as batch:
        for name in ("hidden_since_s", "hidden", "record"):
            batch.drop_column(name)

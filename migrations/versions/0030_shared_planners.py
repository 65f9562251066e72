"""Lets several planners share the sources: each has its own accounts, and says where it listens and what it runs."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_OF_MEMBERS = ("address", "secret", "runs")
_COUNTS = ("probes", "items", "timed_items", "captured", "missed")
_SUMS = (
    *("predicted_items", "predicted_timed_items", "delay_item_s", "predicted_delay_item_s"),
    *("predicted_captured", "predicted_missed"),
)


def upgrade() -> None:
    for name in _OF_MEMBERS:
        op.add_column("members", sa.Column(name, sa.String()))
    day, part = (sa.Column(name, sa.Integer(), primary_key=True, autoincrement=False) for name in ("day", "part"))
    _replace_accounts([day, part], "day, 0")


def downgrade() -> None:
    day = sa.Column("day", sa.Integer(), primary_key=True, autoincrement=False)
    _replace_accounts([day], "day", "GROUP BY day")
    for name in reversed(_OF_MEMBERS):
        op.drop_column("members", name)


def _replace_accounts(keys: list[sa.Column[int]], selected: str, grouped: str = "") -> None:
    counts = [sa.Column(name, sa.Integer(), nullable=False) for name in _COUNTS]
    sums = [sa.Column(name, sa.Float(), nullable=False) for name in _SUMS]
    op.create_table("accounts_new", *keys, *counts, *sums)
    names = [*_COUNTS, *_SUMS]
    summed = ", ".join(f"sum({name})" if grouped else name for name in names)
    op.execute(
        f"INSERT INTO accounts_new ({', '.join(key.name for key in keys)}, {', '.join(names)})"
        f" SELECT {selected}, {summed} FROM accounts {grouped}"
    )
    op.drop_table("accounts")
    op.rename_table("accounts_new", "accounts")

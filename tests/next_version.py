"""A version of proxyd that comes after this one: the same, but for one more migration."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.deployment import ROOT

_MIGRATION = '''"""Adds a column and a table, and writes to every row that there is."""

import sqlalchemy as sa
from alembic import op

revision = "{new}"
down_revision = "{last}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sources", sa.Column("of_next_version", sa.Integer()))
    op.execute("UPDATE sources SET of_next_version = 1")
    op.create_table("of_next_version", sa.Column("id", sa.Integer(), primary_key=True))
'''


def make_next_version(folder: Path) -> str:
    """Make the next version in a folder, and return that; PYTHONPATH has it run."""
    for name in ("proxyd", "migrations"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    versions = folder / "migrations" / "versions"
    last = max(path.name[:4] for path in versions.glob("*.py"))
    new = f"{int(last) + 1:04}"
    (versions / f"{new}_of_next_version.py").write_text(_MIGRATION.format(new=new, last=last), encoding="utf-8")
    return str(folder)

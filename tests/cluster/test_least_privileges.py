"""Planners and notifiers work with the users of PostgreSQL that docs/scaling.md makes, which may do no more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.acceptance.support import eventually
from tests.cluster.hosts import hosts
from tests.cluster.support import cluster
from tests.cluster.test_machines import HOSTS, delivered
from tests.deployment import ROOT
from tests.servers import PostgresServer

pytestmark = pytest.mark.long
FIRST, SECOND = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/scaling.md").read_text(encoding="utf-8"), re.DOTALL)


async def test_each_role_has_what_it_needs_and_no_more(tmp_path: Path, postgresql: PostgresServer) -> None:
    async with hosts(HOSTS) as origin, cluster(tmp_path, postgresql) as machines:
        name = machines.database.rpartition("/")[2]
        own = {word: f"{name}_{word}" for word in ("planner", "notifier")}
        for statement in FIRST.split(";")[:2]:
            postgresql.query(_named(statement, own))
        postgresql.query(f"ALTER DATABASE {name} OWNER TO {own['planner']}")
        machines.declare(origin.texts(machines.receiver.url("each")))
        addresses = {role: machines.database.replace("proxyd@", f"{user}@", 1) for role, user in own.items()}
        planner = await machines.machine("planner", database=addresses["planner"])
        await planner.started()
        for statement in filter(str.strip, SECOND.split(";")):
            postgresql.query(_named(statement, own), name, user=own["planner"])
        await machines.machine("prober")
        notifier = await machines.machine("notifier", database=addresses["notifier"])
        await delivered(machines, origin)
        assert "permission denied" not in planner.log + notifier.log
        hidden = ("SELECT * FROM tokens", "SELECT secret FROM planners")
        forged = "UPDATE planners SET address = 'evil.example:80'"  # to where planners would forward tokens
        for forbidden in (*hidden, "DELETE FROM items", "DROP TABLE items", "CREATE TABLE n ()", forged):
            said = postgresql.refused(forbidden, name, user=own["notifier"])
            assert re.search("permission denied|must be owner", said), said


async def test_a_notifier_without_its_privileges_says_which_it_lacks(
    tmp_path: Path, postgresql: PostgresServer
) -> None:
    async with hosts(1) as origin, cluster(tmp_path, postgresql) as machines:
        name = machines.database.rpartition("/")[2]
        postgresql.query(f"CREATE ROLE {name}_stranger LOGIN")
        machines.declare(origin.texts(machines.receiver.url("each")))
        await (await machines.machine("planner")).started()
        database = machines.database.replace("proxyd@", f"{name}_stranger@", 1)
        notifier = await machines.machine("notifier", database=database)
        await eventually(lambda: "permission denied" in notifier.log, "it says so", state=lambda: notifier.log)
        assert "Traceback" not in notifier.log


def _named(statement: str, own: dict[str, str]) -> str:
    """Return a statement about users of this test: those of the server are shared."""
    return re.sub("proxyd_(planner|notifier)", lambda found: own[found[1]], statement)

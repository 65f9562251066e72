"""What every store keeps of rules that fail."""

from __future__ import annotations

from dataclasses import replace

from proxyd.core.rules.known.failing_rules import FailingRule
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.store.sql_store import SqlStore

FAILING = FailingRule("r", "0123", 4, "s", "it takes more than 10 steps", 5.0)


async def test_how_rules_fail_is_kept_until_they_succeed_or_are_gone(store: SqlStore) -> None:
    other = replace(FAILING, rule="other", failures=5, suspended_s=7.0)
    await store.record_results(RuleResults(failing=(FAILING, other)))
    assert await store.failing.load() == {"r": FAILING, "other": other}
    again = replace(FAILING, failures=5, failed_s=9.0, suspended_s=9.0)
    await store.record_results(RuleResults(failing=(replace(FAILING, failures=0), again)))
    assert (await store.failing.load())["r"] == again
    await store.record_results(RuleResults(failing=(again, replace(again, failures=0))))
    assert await store.failing.load() == {"other": other}
    await store.failing.keep(["r"])
    assert await store.failing.load() == {}

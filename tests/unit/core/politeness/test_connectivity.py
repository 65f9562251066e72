"""When silence is our own fault."""

from __future__ import annotations

import pytest

from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.politeness.faults import Connectivity, Outage


def test_three_silent_hosts_are_an_outage_until_any_answers() -> None:
    connection = Connectivity()
    for host in ("a", "b", "c"):
        connection.take_in(host, ProbeOutcome(host, OutcomeKind.TIMEOUT, 0.0, 30.0))
    assert connection.is_down
    answer = ProbeOutcome("d", OutcomeKind.HTTP_ERROR, 60.0, 61.0, status=500)
    assert connection.take_in("d", answer) == Outage(since_s=0.0, until_s=61.0)
    assert not connection.is_down


@pytest.mark.parametrize(("hosts", "sure"), [(2, True), (3, False)])
def test_the_silence_of_one_of_few_hosts_is_its_own(hosts: int, sure: bool) -> None:
    silent = ProbeOutcome("a", OutcomeKind.TIMEOUT, 0.0, 30.0)
    assert Connectivity().is_sure("a", silent, since_s=0.0, hosts=hosts) is sure

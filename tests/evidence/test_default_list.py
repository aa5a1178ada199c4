"""The default list of redis-benchmark: what is sent is taken, and is a valid scenario."""

import pytest

from evidence.live.default_list import KEYS, PIPELINE, TESTS, fill, workload_of
from forecache.calibration.drive.servers import EngineProcess
from forecache.models.engines.commands import counted_on
from forecache.models.engines.profile import load_engine
from forecache.models.scenario.workload import Workload

KNOWN = counted_on(load_engine("valkey-9.1").commands)


@pytest.mark.parametrize("name", TESTS)
def test_a_line_is_a_scenario_with_the_commands_that_are_sent(name: str) -> None:
    test = TESTS[name]
    workload = Workload(**workload_of(test))
    sent = [words.split(" ")[0] for words in " ".join(test.words).split(" ; ")]
    assert workload.pipeline == PIPELINE * len(sent)
    assert workload.mix is not None
    assert {n: each.share for n, each in workload.mix.commands.items()} == pytest.approx(
        {n: sent.count(n) / len(sent) for n in sent}
    )
    assert set(sent) <= set(KNOWN)


def test_the_server_takes_them_and_finds_what_it_takes_away(engine: EngineProcess) -> None:
    with engine.control() as control:
        fill(control)
        for test in TESTS.values():
            for words in " ".join(test.words).split(" ; "):
                found = control.command(*words.replace("__rand_int__", f"{7:012d}").split(" "))
                assert found not in (None, []), words
        assert control.command("SCARD", "myset") == KEYS - 1
        assert control.command("LLEN", "mylist") == 10_002

"""Random mixes: what is drawn can be sent, leaves the data alone, and is a valid scenario."""

import re
from typing import Any

import numpy as np
import pytest

from evidence.live.mixes import (
    APART,
    COMMANDS_OF_MIX,
    KEYS,
    LEFT_OUT,
    PAIRS,
    check_errors,
    check_sizes,
    draw,
    fill,
    words_of,
    workload_of,
)
from forecache.calibration.drive.servers import EngineProcess
from forecache.models.engines.commands import counted_on
from forecache.models.engines.profile import load_engine
from forecache.models.scenario.command_table import COMMANDS
from forecache.models.scenario.workload import Workload
from forecache.sim.errors import EngineError

KNOWN = counted_on(load_engine("valkey-9.1").commands)


def some(seed: int, number: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    return [draw(random, KNOWN) for _ in range(number)]


def test_every_command_that_may_come_does() -> None:
    drawn = {command for mix in some(1, 150) for command, *_ in mix["commands"]}
    assert drawn == set(KNOWN) - LEFT_OUT
    assert {*LEFT_OUT, *PAIRS, *PAIRS.values()} <= COMMANDS.keys()


def test_what_moves_elements_comes_without_what_looks_for_them() -> None:
    for mix in some(4, 100):
        drawn = {command for command, *_ in mix["commands"]}
        assert not any(drawn & one and drawn & other for one, other in APART)


def test_places_of_repeats_are_spread() -> None:
    mix = {"commands": [["lindex", 1, 2], ["hmget", 4, 2]], "sizes": {"list": 200, "hash": 40}}
    sent = [
        words.split(" ") for words in " ".join(words_of(mix | {"value_bytes": 16})).split(" ; ")
    ]
    assert {words[-1] for words in sent if words[0] == "lindex"} == {"50", "150"}
    fields = [[int(word[5:]) for word in words[2:]] for words in sent if words[0] == "hmget"]
    assert sorted(fields) == [[2, 12, 22, 32], [7, 17, 27, 37]]


def test_commands_of_a_mix_are_sent_in_an_order_drawn_at_random() -> None:
    mix = {"commands": [["hlen", 1, 6], ["llen", 1, 6]], "sizes": {"list": 200, "hash": 40}}
    sent = " ".join(words_of(mix | {"value_bytes": 16})).split(" ; ")
    commands = [words.split(" ")[0] for words in sent]
    assert sorted(commands) == ["hlen"] * 6 + ["llen"] * 6 != commands
    assert sent == " ".join(words_of(mix | {"value_bytes": 16})).split(" ; ")


def test_a_mix_is_a_scenario_with_the_shares_that_are_sent() -> None:
    for mix in some(2, 50):
        assert COMMANDS_OF_MIX[0] <= len(mix["commands"]) <= COMMANDS_OF_MIX[1]
        workload = Workload(**workload_of(mix))
        sequence = " ".join(words_of(mix)).split(" ; ")
        sent: dict[str, int] = {}
        for words in sequence:
            command, *_ = words.split(" ")
            command = "hset" if command == "hmset" else command
            sent[command] = sent.get(command, 0) + 1
        assert sum(sent.values()) == workload.pipeline
        assert workload.mix is not None
        said = {name: each.share for name, each in workload.mix.commands.items()}
        assert said == pytest.approx({name: n / workload.pipeline for name, n in sent.items()})


def test_the_server_takes_them_and_its_data_stay(engine: EngineProcess) -> None:
    with engine.control() as control:
        for mix in some(3, 12):
            fill(mix, control)
            check_sizes(control, mix)
            kinds = set(re.findall(r"k\d+:", " ".join(words_of(mix))))
            assert control.command("DBSIZE") == KEYS * len(kinds)
            # `check_errors` has this key in place of random ones.
            keys = [f"{kind}{1:012d}" for kind in sorted(kinds)]
            before = [control.command("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys]
            for _ in range(20):
                check_errors(control, mix)
            after = [control.command("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys]
            assert after == pytest.approx(before, rel=0.1, abs=50), mix
            assert control.command("DBSIZE") == KEYS * len(kinds)


def test_collections_that_have_grown_or_gone_are_told(engine: EngineProcess) -> None:
    mix = {"commands": [["llen", 1, 1]], "sizes": {"list": 200}, "value_bytes": 16}
    with engine.control() as control:
        fill(mix, control)
        for n in range(KEYS):
            control.command("LTRIM", f"k00:{n:012d}", 0, 149)
        with pytest.raises(EngineError, match=r"list: 200 in each were drawn and 150\.0 are left"):
            check_sizes(control, mix)

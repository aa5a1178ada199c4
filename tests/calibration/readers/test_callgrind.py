"""Files of Callgrind: one program under many options, the specification's example, damage."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.observe.readers.callgrind import (
    Call,
    CallgrindProfile,
    FunctionCost,
    parse_callgrind,
    read_callgrind,
)
from forecache.sim.errors import InputError

SAMPLES = Path(__file__).parent / "samples" / "callgrind"


def calls_of(profile: CallgrindProfile) -> dict[tuple[str, str], tuple[int, int]]:
    """Count and inclusive instructions of each pair."""
    return {
        (call.caller, call.callee): (call.count, call.inclusive["Ir"]) for call in profile.calls
    }


def test_costs_and_calls() -> None:
    profile = read_callgrind(SAMPLES / "default.out")
    assert profile.events == ("Ir",)
    assert profile.totals == {"Ir": 3799}
    assert profile.functions["fill"] == FunctionCost(
        "/opt/demo/demo", "/opt/demo/demo.c", {"Ir": 3732}
    )
    assert calls_of(profile) == {
        ("(below main)", "visit"): (1, 1282),
        ("(below main)", "fill"): (1, 2508),
        ("visit", "fill"): (1, 608),
        ("visit", "visit'2"): (1, 656),
        ("visit'2", "fill"): (2, 616),
        ("visit'2", "visit'2"): (2, 234),
    }


# What a function costs with all it calls is what its caller is told.
def test_inclusive_costs_add_up() -> None:
    profile = read_callgrind(SAMPLES / "default.out")
    below = sum(call.inclusive["Ir"] for call in profile.calls if call.caller == "visit")
    assert profile.functions["visit"].self["Ir"] + below == 1282


@pytest.mark.parametrize(
    "name", ["uncompressed.out", "instructions.out", "threads.out", "five-parts.out"]
)
def test_the_same_run_under_other_options(name: str) -> None:
    plain = read_callgrind(SAMPLES / "default.out")
    other = read_callgrind(SAMPLES / name)
    assert other.totals == plain.totals
    assert other.functions == plain.functions
    assert calls_of(other).keys() >= calls_of(plain).keys()


def test_simulated_caches_and_branches() -> None:
    profile = read_callgrind(SAMPLES / "cache-and-branches.out")
    assert len(profile.events) == 13
    assert profile.totals["Ir"] == 3799
    # Stores of `fill` go over 500 integers, which is 32 lines of 64 bytes.
    assert profile.functions["fill"].self["D1mw"] == 32
    assert sum(cost.self["Dw"] for cost in profile.functions.values()) == profile.totals["Dw"]


def test_the_example_of_the_specification() -> None:
    profile = read_callgrind(SAMPLES / "manual-handmade.out")
    # A cost left out is zero; 0x10 is sixteen.
    assert profile.functions["main"].self == {"Cycles": 20, "Instructions": 16, "Flops": 0}
    assert profile.functions["func2"].file == "file2.c"
    assert profile.calls[1] == Call(
        "main", "func2", 3, {"Cycles": 400, "Instructions": 300, "Flops": 0}
    )


def test_functions_of_one_name() -> None:
    text = "events: Ir\nob=a\nfl=x.c\nfn=f\n1 2\nfl=y.c\nfn=f\n1 3\ntotals: 5\n"
    functions = parse_callgrind(text, file="f").functions
    assert {name: cost.self["Ir"] for name, cost in functions.items()} == {
        "f [a, x.c]": 2,
        "f [a, y.c]": 3,
    }


def test_inlined_code_belongs_to_its_function() -> None:
    text = "events: Ir\nfl=x.c\nfn=f\n1 2\nfi=y.h\n9 5\ncfn=g\ncalls=1 3\n9 4\n"
    text += "fl=y.h\nfn=g\n3 4\nfl=x.c\nfn=h\n4 1\ntotals: 12\n"
    profile = parse_callgrind(text, file="f")
    assert {name: (cost.file, cost.self["Ir"]) for name, cost in profile.functions.items()} == {
        "f": ("x.c", 7),
        "g": ("y.h", 4),
        "h": ("x.c", 1),
    }


@pytest.mark.parametrize("name", [path.name for path in sorted(SAMPLES.glob("*.out"))])
def test_a_cut_file_or_a_changed_cost_is_refused(name: str) -> None:
    text = (SAMPLES / name).read_text(encoding="utf-8")
    whole = parse_callgrind(text, file="f")
    lines = text.splitlines()
    for n_lines in range(len(lines)):
        cut = "\n".join(lines[:n_lines]) + "\n"
        try:
            read = parse_callgrind(cut, file="f")
        except InputError:
            continue
        # What remains is whole: only its second statement of the total is gone, or whole parts.
        assert sum(read.totals.values()) <= sum(whole.totals.values())
        assert cut.count("part:") < text.count("part:") or read.functions == whole.functions
    with pytest.raises(InputError, match="costs add up to"):
        parse_callgrind(text.replace("totals: ", "totals: 1"), file="f")


HEAD = "events: Ir Dr\nfl=x.c\nfn=f\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "without `totals:`"),
        ("hello\n", "line 1"),
        ("version: 1\n", "without `totals:`"),
        (HEAD + "1 2 3\n", "a part without `totals:`"),
        (HEAD + "1 2 3\ntotals: 2 4\n", "the total 2 4 where the costs add up to 2 3"),
        (HEAD + "1 2 3 4\ntotals: 2 3\n", "line 4"),
        (HEAD + "1 2 -3\ntotals: 2 3\n", "line 4"),
        (HEAD + "1 99999999999999999999 3\n", "below 2^64"),
        ("events: Ir Ir\n", "different names"),
        ("events: Ir\nevents: Ir\n", "different names"),
        ("events: Ir\nfn=f\n1 2\ntotals: 2\nevents: Dr\nfn=f\n1 2\ntotals: 2\n", "the same in all"),
        ("events: Ir\npositions: column\n", "positions 'column'"),
        ("events: Ir\n1 2\n", "`fn=` before it"),
        ("fn=f\n1 2\n", "`events:` before them"),
        (HEAD + "calls=1 2\n1 2\n", "`cfn=` before it"),
        (HEAD + "cfn=g\ncalls=1 2\n", "a call without its cost"),
        (HEAD + "cfn=g\ncalls=1 2\nfn=f\n", "line 6"),
        (HEAD + "cfn=(7)\n", "given a name before"),
        ("fn=(7) f\nfn=(7) g\n", "the first name of its number"),
        ("fn=\n", "no name"),
        (HEAD + "1 2 3\ntotals: 2 3\npart: 2\n", "a part without costs"),
    ],
)
def test_what_is_refused(text: str, found: str) -> None:
    with pytest.raises(InputError) as error:
        parse_callgrind(text, file="f")
    assert found in str(error.value)
    assert str(error.value).startswith("f")


NAMES = st.sampled_from(["main", "f(int)", "std::map<int, char>::at(int)", "0x0000401000", "g'2"])
COSTS = st.lists(st.integers(0, 2**40), min_size=3, max_size=3)


@given(
    st.dictionaries(NAMES, st.lists(COSTS, min_size=1, max_size=4), min_size=1),
    st.lists(st.tuples(NAMES, NAMES, st.integers(0, 2**30), COSTS), max_size=5),
    st.booleans(),
    st.data(),
)
def test_what_was_written_is_read_back(
    costs: dict[str, list[list[int]]],
    calls: list[tuple[str, str, int, list[int]]],
    compressed: bool,
    data: st.DataObject,
) -> None:
    numbers: dict[str, int] = {}

    def name(text: str) -> str:
        if not compressed:
            return text
        known = text in numbers
        number = numbers.setdefault(text, len(numbers))
        return f"({number})" if known else f"({number}) {text}"

    position = st.sampled_from(["12", "+3", "-2", "*", "0x1f"])
    lines = ["# callgrind format", "version: 1", "positions: line", "events: Ir Dr Dw", "fl=x.c"]
    for function, rows in costs.items():
        lines.append(f"fn={name(function)}")
        for row in rows:
            n_written = 3
            while n_written > 0 and row[n_written - 1] == 0 and data.draw(st.booleans()):
                n_written -= 1
            lines.append(" ".join([data.draw(position), *map(str, row[:n_written])]))
    for caller, callee, count, row in calls:
        lines += [f"fn={name(caller)}", f"cfn={name(callee)}", f"calls={count} 7"]
        lines.append(" ".join(["7", *map(str, row)]))
    sums = [
        sum(column) for column in zip(*(r for rows in costs.values() for r in rows), strict=True)
    ]
    lines.append("totals: " + " ".join(map(str, sums)))

    profile = parse_callgrind("\n".join(lines) + "\n", file="f")
    assert list(profile.totals.values()) == sums
    for function, rows in costs.items():
        expected = [sum(column) for column in zip(*rows, strict=True)]
        assert list(profile.functions[function].self.values()) == expected
    merged: dict[tuple[str, str], list[int]] = {}
    for caller, callee, count, row in calls:
        before = merged.get((caller, callee), [0] * 4)
        merged[caller, callee] = [a + b for a, b in zip(before, [count, *row], strict=True)]
    assert merged == {
        (call.caller, call.callee): [call.count, *call.inclusive.values()] for call in profile.calls
    }

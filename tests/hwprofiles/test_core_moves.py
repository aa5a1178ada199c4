"""A capture keeps the rounds in which two CPUs were equally far apart, and its core was its own."""

from forecache.hwprofiles.capture import collect
from forecache.hwprofiles.capture.collect import Block, Collected, PairRound, of_one_distance


def a_round(*distances_ns: float, sample: float = 1.0) -> PairRound:
    found = Collected()
    found.add("core_to_core_ns", [sample])
    return PairRound(list(distances_ns), found)


def test_the_most_rounds_of_one_distance_are_kept() -> None:
    near, moved, far = a_round(28.0, 30.0), a_round(28.0, 125.0), a_round(125.0, 127.0)
    again = a_round(25.0, 27.0)
    assert of_one_distance([far, near, moved, again]) == [near, again]
    assert of_one_distance([far, near]) == [far]
    assert of_one_distance([moved]) == []


def test_rounds_are_repeated_until_there_are_three_of_one_distance(monkeypatch) -> None:
    coming = [a_round(28.0, sample=28.0), a_round(125.0, sample=125.0), a_round(29.0, sample=29.0)]
    monkeypatch.setattr(collect, "_pair_round", lambda *_: coming.pop(0))
    rounds = [
        a_round(27.0, sample=27.0),
        a_round(126.0, 28.0, sample=0.0),
        a_round(124.0, sample=124.0),
    ]
    found, said = Collected(), []
    collect._settle((0, 1), rounds, found, said.append)
    assert found.short["core_to_core_ns"] == [27.0, 28.0, 29.0]
    assert len(said) == 3


def test_cores_that_never_stay_are_all_kept(monkeypatch) -> None:
    monkeypatch.setattr(collect, "_pair_round", lambda *_: a_round(28.0, 125.0, sample=60.0))
    found = Collected()
    collect._settle((0, 1), [a_round(125.0, 28.0, sample=50.0)], found, lambda _: None)
    assert len(found.short["core_to_core_ns"]) == collect._MOST_PAIR_ROUNDS


def a_block(*, answer_ns: float, sample: float) -> Block:
    found = Collected()
    found.add("syscall_ns", [sample])
    return Block(answer_ns, found)


def test_samples_of_a_core_that_another_machine_uses_are_left_out() -> None:
    blocks = {
        "calls": [a_block(answer_ns=33.0, sample=90.0), a_block(answer_ns=57.0, sample=150.0)]
    }
    found = Collected()
    collect._keep_fast(0, blocks, found)
    assert found.short["syscall_ns"] == [90.0]
    assert found.slowed == (0.5, 57.0 / 33.0)


def test_a_probe_without_such_samples_is_repeated(monkeypatch) -> None:
    coming = [a_block(answer_ns=56.0, sample=140.0), a_block(answer_ns=34.0, sample=95.0)]
    monkeypatch.setattr(collect.cores, "core_answer_ns", lambda _: 33.0)
    monkeypatch.setattr(collect, "_block", lambda *_: coming.pop(0))
    blocks = {
        "instructions": [a_block(answer_ns=33.0, sample=0.0)],
        "calls": [a_block(answer_ns=57.0, sample=150.0)],
    }
    found = Collected()
    collect._keep_fast(0, blocks, found)
    assert found.short["syscall_ns"] == [0.0, 95.0]


def test_where_the_core_is_never_its_own_all_samples_are_kept(monkeypatch) -> None:
    monkeypatch.setattr(collect, "_SHARED_S", 0.0)
    blocks = {
        "instructions": [a_block(answer_ns=33.0, sample=0.0)],
        "calls": [a_block(answer_ns=57.0, sample=150.0), a_block(answer_ns=56.0, sample=140.0)],
    }
    found = Collected()
    collect._keep_fast(0, blocks, found)
    assert found.short["syscall_ns"] == [0.0, 150.0, 140.0]

"""Who pays for what, in closed cases."""

import math

import pytest
from hypothesis import given as generated
from hypothesis import strategies as st

from forecache.calibration.observe.profilers.attribution import Attribution, Stages, charge
from forecache.calibration.observe.readers.callgrind import Call, CallgrindProfile, FunctionCost
from forecache.calibration.observe.readers.perf import Frame, Sample

STAGES = Stages("redis", "7.0.15")
KERNEL = 0xFFFFFFFF81000000


def sample(*frames: Frame, tid: int = 7) -> Sample:
    return Sample(
        comm="redis-server",
        pid=7,
        tid=tid,
        cpu=None,
        time_s=1.0,
        period=250_000,
        event="cpu-clock",
        frames=frames,
    )


def kernel(*names: str, user: str | None = None) -> tuple[Frame, ...]:
    frames = tuple(Frame(KERNEL + i, name) for i, name in enumerate(names))
    return frames if user is None else (*frames, Frame(0x1000, user))


@pytest.mark.parametrize(
    ("frames", "stage"),
    [
        (kernel("tcp_ack", "tcp_sendmsg", "ksys_write", "do_syscall_64", user="write"), "write"),
        # On the way out of the kernel only the C library's function tells the system call.
        (kernel("schedule", "exit_to_user_mode_loop", "do_syscall_64", user="read"), "read"),
        # A packet that arrives inside a system call belongs to that call.
        (kernel("tcp_v4_rcv", "handle_softirqs", "do_epoll_wait", user="write"), "poll"),
        (kernel("handle_softirqs", "asm_sysvec_apic_timer_interrupt", user="lookupKey"), "lookup"),
        (kernel("clear_page", "asm_exc_page_fault", user="call"), "memory"),
        ((Frame(0x10, "dictFind"), Frame(0x20, "writeToClient")), "lookup"),
        ((Frame(0x10, None), Frame(0x20, "writeToClient")), None),
        (kernel("swapper"), None),
    ],
)
def test_a_sample_has_the_stage_of_its_call(frames: tuple[Frame, ...], stage: str | None) -> None:
    found = Attribution(STAGES).add([sample(*frames)])
    (thread,) = found.threads({7: "main"})
    assert thread.stages[0].stage == (stage or "other")
    assert found.unattributed == (1.0 if stage is None else 0.0)
    assert thread.stages[0].kernel_share == (1.0 if frames[0].address >= KERNEL else 0.0)


def test_shares_and_their_errors() -> None:
    reads = [sample(*kernel("ksys_read"))] * 30
    calls = [sample(Frame(0x10, "call"))] * 10
    helpers = [sample(Frame(0x10, "IOThreadMain"), tid=8)] * 60
    found = Attribution(STAGES).add([*reads, *calls, *helpers, sample()])
    assert found.samples == 100  # one without an address counts nowhere
    helper, main = found.threads({7: "main", 8: "io"})
    assert (helper.role, helper.share, main.role, main.share) == ("io", 0.6, "main", 0.4)
    assert [(cost.stage, cost.share) for cost in main.stages] == [("read", 0.75), ("execute", 0.25)]
    assert main.stages[0].standard_error == pytest.approx(math.sqrt(0.75 * 0.25 / 40))
    assert helper.stages[0].standard_error == 0.0
    assert found.evidence().splitlines()[1] == "redis-server;read;ksys_read 30"


def profile(
    costs: dict[str, int], calls: list[tuple[str, str, int]], *, misses: int = 0
) -> CallgrindProfile:
    def events(cost: int) -> dict[str, int]:
        return {"Ir": cost, "D1mr": cost * misses}

    return CallgrindProfile(
        events=("Ir", "D1mr"),
        totals=events(sum(costs.values())),
        functions={
            name: FunctionCost("redis", "???", events(cost)) for name, cost in costs.items()
        },
        calls=tuple(Call(a, b, 1, events(cost)) for a, b, cost in calls),
    )


def test_shared_functions_are_charged_to_their_nearest_mapped_caller() -> None:
    charged, lost = charge(
        profile(
            {"call": 100, "addReplyBulk": 50, "helper": 10, "malloc": 40, "free": 7},
            [
                # malloc costs 30 by way of the helper of addReplyBulk, and 10 by call.
                ("addReplyBulk", "helper", 40),
                ("helper", "malloc", 30),
                ("call", "malloc", 10),
            ],
            misses=2,
        ),
        STAGES,
    )
    assert charged["execute"] == {"Ir": 110, "D1mr": 220}
    assert charged["reply"] == {"Ir": 90, "D1mr": 180}
    assert charged["memory"] == {"Ir": 7, "D1mr": 14}  # the caller of free is unknown
    assert lost == {"Ir": 0, "D1mr": 0}


def test_calls_of_unmapped_functions_go_to_other() -> None:
    charged, lost = charge(profile({"0x1234": 5, "call": 1}, []), STAGES)
    assert (charged["other"]["Ir"], lost["Ir"]) == (5, 5)


def test_cycles_among_unmapped_functions_end() -> None:
    charged, lost = charge(
        profile({"a": 8, "b": 0, "call": 0}, [("a", "b", 6), ("b", "a", 6), ("call", "a", 2)]),
        STAGES,
    )
    assert charged["execute"]["Ir"] + lost["Ir"] == pytest.approx(8)
    assert charged["execute"]["Ir"] > 7.9


NAMES = ["call", "addReplyBulk", "malloc", "0x1", "0x2", "serverCron", "sdsnew"]


@generated(
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 10**9), min_size=1),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 10**9))),
)
def test_nothing_is_charged_twice_or_forgotten(
    costs: dict[str, int], arcs: list[tuple[int, int, int]]
) -> None:
    calls = [
        (NAMES[a], NAMES[b], cost) for a, b, cost in arcs if NAMES[a] in costs and NAMES[b] in costs
    ]
    charged, _ = charge(profile(costs, calls), STAGES)
    total = sum(pay["Ir"] for pay in charged.values())
    assert total == pytest.approx(sum(costs.values()), rel=1e-9, abs=1e-6)

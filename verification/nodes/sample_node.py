"""A node of round numbers, for tests, verification and benchmarks.

The durations are of the size a server of today takes, but they describe no host and no engine.
"""

from typing import Any

import numpy as np

from forecache.models.node.setup import DRAWS, JITTER_ONE, NO_LIMIT, QUANTILES, NodeSetup, NodeTimes

GET, SET = 0, 1
"""The two command codes of the sample: GET of 512 bytes, SET of 512 bytes."""

_GET_SHARE = 0.8


def no_arrivals() -> dict[str, np.ndarray]:
    """Tables of arrivals at a constant rate."""
    names = ("piece_ps", "piece_gap_ps", "trace_due_ps", "trace_code")
    return {name: np.zeros(0, np.int64) for name in names}


def sample_times(**changes: Any) -> NodeTimes:
    """Durations in picoseconds; `changes` replaces fields.

    A single `wake_latency_ps` stands for all of its quantiles. The load generator's copies take as
    long as the server's unless `changes` says so.
    """
    quantile = np.arange(QUANTILES)
    # Up to 15 % more or less, and one as the mean.
    jitter = np.rint(JITTER_ONE * (0.85 + 0.3 * (quantile + 0.5) / QUANTILES)).astype(np.int64)
    times = NodeTimes(
        loop_ps=150_000,
        poll_ps=400_000,
        poll_event_ps=30_000,
        doze_ps=600_000,
        block_ps=800_000,
        wake_send_ps=800_000,
        short_block_ps=100_000,
        short_wake_send_ps=300_000,
        long_sleep_ps=2_000_000,
        read_event_ps=100_000,
        recv_ps=500_000,
        send_ps=1_500_000,
        write_event_ps=80_000,
        recv_ps_per_kib=80_000,
        send_ps_per_kib=80_000,
        push_ps=30_000,
        pop_ps=60_000,
        scan_ps=2_000,
        event_ps=20_000,
        done_ps=40_000,
        collect_ps=20_000,
        handover_ps=60_000,
        activate_ps=50_000,
        thread_wake_ps=5_000_000,
        generator_poll_ps=500_000,
        generator_poll_event_ps=40_000,
        generator_recv_ps=500_000,
        generator_reply_ps=50_000,
        generator_send_ps=1_500_000,
        generator_request_ps=50_000,
        generator_recv_ps_per_kib=80_000,
        generator_send_ps_per_kib=80_000,
        one_way_ps=20_000_000,
        wire_ps_per_kib=500_000,
        free_push_ps=15_000,
        accept_ps=8_000_000,
        handshake_ps=200_000_000,
        publish_ps=60_000,
        own_turn_ps=50_000,
        notify_ps=400_000,
        notice_ps=350_000,
        packet_ps=0,
        flow_ps_per_kib=0,
        free_arguments_ps=0,
        softirq_ps=900_000,
        switch_ps=1_500_000,
        flush_ps=2_000_000,
        rearm_ps=700_000,
        futex_ps=200_000,
        parse_by_code_ps=np.array([60_000, 80_000], np.int64),
        execute_by_code_ps=np.array([150_000, 250_000], np.int64),
        # Up to three and a half misses of 110 ns.
        stall_ps=np.tile(quantile * 1_500, (2, 1)).astype(np.int64),
        prefetched_stall_by_code_ps=np.array([30_000, 50_000], np.int64),
        prefetch_by_keys_ps=(200_000 + 60_000 * np.arange(33)).astype(np.int64),
        request_bytes_by_code=np.array([40, 580], np.int64),
        reply_bytes_by_code=np.array([520, 5], np.int64),
        write_by_code_ps=np.zeros(2, np.int64),
        free_by_code_ps=np.zeros(2, np.int64),
        keys_by_code=np.ones(2, np.int64),
        logged_bytes_by_code=np.zeros(2, np.int64),
        rare_below_by_code=np.zeros(2, np.int64),
        code_by_draw=np.where(np.arange(DRAWS) < _GET_SHARE * DRAWS, GET, SET).astype(np.int64),
        lock_by_draw=np.full(DRAWS, -1, np.int64),
        list_by_draw=np.arange(DRAWS) % 4,
        section_ps=np.full(7, 10_000, np.int64),
        section_moved_ps=np.full(7, 100_000, np.int64),
        jitter=jitter,
        wake_latency_ps=np.full(QUANTILES, 3_000_000),
        # From 5 to 133 us, as of a virtual machine; the sample's setup has none of them.
        interruption_ps=((5 + 0.5 * quantile) * 1_000_000).astype(np.int64),
        **no_arrivals(),
        sibling_scale=np.zeros(0, np.int64),
    )
    if "wake_latency_ps" in changes:
        changes["wake_latency_ps"] = np.full(QUANTILES, changes["wake_latency_ps"], np.int64)
    for name in ("recv_ps_per_kib", "send_ps_per_kib"):
        if name in changes:
            changes.setdefault(f"generator_{name}", changes[name])
    return times._replace(**changes)


def sample_setup(**changes: Any) -> NodeSetup:
    """Counts and rules: a closed loop over a network for 100 us; `changes` replaces fields."""
    setup = NodeSetup(
        io_threads=1,
        clients=8,
        generators=2,
        pipeline=1,
        open_loop=0,
        mean_interarrival_ps=10_000_000,
        think_ps=0,
        same_host=0,
        prefetch_batch=16,
        events_per_io_thread=2,
        whole_pipeline=0,
        lookahead=NO_LIMIT,
        job_capacity=2048,
        spin_ps=1_500_000_000,
        ignite_period_ps=50 * 10**9,
        grow_period_ps=10 * 10**9,
        shrink_after_ps=10**12,
        initial_active=1,
        outstanding_limit=1,
        warmup_ps=0,
        end_ps=100_000_000,
        series_ps=10**9,
        seed=1,
        replication=0,
        read_limit_bytes=16_384,
        commands_per_event=NO_LIMIT,
        write_limit_bytes=65_536,
        segment_bytes=60_000,
        interruption_gap_ps=0,
        backlog_limit=4,
        generator_spins=0,
        connection_gap_ps=0,
        offload_handshakes=0,
        first_owner=0,
        owners=1,
        io_threads_do_reads=0,
        clients_in_blocks=0,
        generator_refills=0,
        generator_read_bytes=16_384,
        counts_first_read=0,
        polls_to_send=0,
        generator_start_ps=0,
        hand_over_group=16,
        segment_size_bytes=8_949,
        header_bytes=0,
        interrupt_cores=0,
        server_cores=0,
        generator_cores=0,
        shared_cores=0,
        slice_ps=1_500_000_000,
        tick_ps=4_000_000_000,
        cache_hot_ps=500_000_000,
        other_threads=0,
        main_pinned=0,
        sibling_threads=0,
        quota_ps=0,
        quota_period_ps=100 * 10**9,
        quota_slice_ps=5 * 10**9,
        fsync_always=0,
        replicas=0,
        item_locks=64,
        lists=4,
        random_pieces=0,
        trace_period_ps=0,
    )
    if "pipeline" in changes and "outstanding_limit" not in changes:
        changes = {**changes, "outstanding_limit": changes["pipeline"]}
    return setup._replace(**changes)

"""What is assumed of hosts whose profile doesn't say it."""

from .parts import Tls
from .quantity import Quantity

ASSUMED_SOFTIRQ_NS = Quantity(
    value=900,
    unit="ns",
    kind="assumed",
    low=500,
    high=1500,
    method="Linux takes about a million packets a second off one receive queue (Cloudflare, Kernel "
    "bypass, 2015); a server tuned for nothing else answered 1.2 million requests a second on 4 "
    "vCPUs, 3.3 us a packet for everything, the application included (talawah.io, Extreme HTTP "
    "performance tuning, 2021)",
)
"""For hosts whose profile doesn't say what an interrupt takes per packet."""

ASSUMED_TLS = Tls(
    record_ns=Quantity(
        value=700,
        unit="ns",
        kind="assumed",
        low=300,
        high=1500,
        method="`openssl speed -evp aes-256-gcm` takes 50 to 350 ns for 16 bytes on current cores; "
        "SSL_read or SSL_write around it 500 to 2000 cycles. Redis 7.0 on Zen 5 spent 2.0 us a "
        "request in the library, for two records of 557 bytes together, on a machine with other "
        "work",
    ),
    ns_per_byte=Quantity(
        value=0.35,
        unit="ns/B",
        kind="assumed",
        low=0.12,
        high=0.7,
        method="AES-GCM with the instructions made for it takes 0.3 to 1.5 cycles a byte in "
        "`openssl speed` of 1 KiB and more, and the record is copied once",
    ),
    ecdsa_handshake_us=Quantity(
        value=200,
        unit="us",
        kind="assumed",
        low=100,
        high=300,
        method="one P-256 signature (20 to 60 us), one X25519 exchange (50 to 120 us), key "
        "derivation and the library's objects",
    ),
    rsa_handshake_us=Quantity(
        value=1100,
        unit="us",
        kind="assumed",
        low=350,
        high=2300,
        method="the same with an RSA-2048 signature of 0.2 to 1.2 ms; a Valkey that did nothing "
        "else took 477 new TLS connections a second (valkey PR 1338), 2.1 ms each with all that "
        "accepting takes",
    ),
)
"""For hosts whose profile says nothing about TLS."""


def assumed_scheduling(cores: int) -> dict[str, Quantity]:
    """What threads that share cores go by, for profiles that don't say it.

    Parameters
    ----------
    cores
        CPUs of the operating system: Linux scales its slice by 1 + log2(min(cores, 8)).
    """
    scale = min(cores, 8).bit_length()
    return {
        "time_slice_us": Quantity(
            value=700 * scale,
            unit="us",
            kind="assumed",
            low=700 * scale,
            high=750 * scale,
            method="kernel/sched/fair.c, sysctl_sched_base_slice: 0.70 ms (0.75 ms in Linux 6.6 to "
            "6.12) times 1 + log2(min(CPUs, 8)), the default of SCHED_TUNABLESCALING_LOG",
        ),
        "timer_tick_us": Quantity(
            value=4000,
            unit="us",
            kind="assumed",
            low=1000,
            high=4000,
            method="kernel/Kconfig.hz: 250 a second is its default and what Debian and the kernels "
            "of most clouds are built with; some distributions take 1000",
        ),
        "context_switch_ns": Quantity(
            value=1500,
            unit="ns",
            kind="assumed",
            low=1000,
            high=3000,
            method="1.2 to 1.5 us between threads of a core, 2.2 with migration (E. Bendersky, "
            "Measuring context switching and memory overheads for Linux threads, 2018)",
        ),
    }

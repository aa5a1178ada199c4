"""Reading an archive of `forecache observe --contributor` without trusting it.

It is decompressed in memory up to a limit, and only plain files with the names of a bundle are
taken out. Their contents must be those that its list of hashes says.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from forecache.calibration.bundle.bundle import HASHES_FILE
from forecache.sim.errors import InputError

MOST_PACKED_BYTES = 32 * 2**20
MOST_BYTES = 128 * 2**20
MOST_FILES = 2_000

_NAMES = re.compile(
    r"manifest\.yaml|points\.jsonl|host\.yaml|config(-io-threads-\d{1,3})?\.yaml|profiles\.jsonl"
    r"|commands\.json|info/\d{3,4}\.txt|profiles/\d{3,4}\.txt\.gz|" + re.escape(HASHES_FILE)
)
_NEEDED = ("manifest.yaml", "points.jsonl", "config.yaml", "host.yaml")
_SUM = re.compile(r"([0-9a-f]{64})  (.+)")


@dataclass(frozen=True)
class Archive:
    """What is in a contributor's file.

    Attributes
    ----------
    files
        Contents by name, without the list of hashes.
    sha256
        Of the file itself.
    """

    file: Path
    files: dict[str, bytes]
    sha256: str

    def unpack(self, folder: Path) -> None:
        """Write its files into a folder."""
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def read_archive(file: Path) -> Archive:
    """Read a contributor's file.

    Raises
    ------
    InputError
        It is too large, damaged, has a file that no bundle has, or its contents are not those that
        its hashes say.
    """
    try:
        with file.open("rb") as stream:
            packed = stream.read(MOST_PACKED_BYTES + 1)
    except OSError as error:
        raise InputError(f"{file}: can't be read ({error.strerror}).") from None
    if len(packed) > MOST_PACKED_BYTES:
        raise InputError(f"{file}: found more than {MOST_PACKED_BYTES >> 20} MiB; valid is less.")
    found = _members(file, _decompressed(file, packed))
    files = {name: data for name, data in found.items() if name != HASHES_FILE}
    for name in _NEEDED:
        if name not in files:
            raise InputError(f"{file}: found no {name}; valid is a bundle with its host.")
    _check_hashes(file, files, found.get(HASHES_FILE))
    return Archive(file, files, hashlib.sha256(packed).hexdigest())


def _decompressed(file: Path, packed: bytes) -> bytes:
    """The tar file in it, of bounded size."""
    reader = zlib.decompressobj(wbits=31)  # gzip
    try:
        data = reader.decompress(packed, MOST_BYTES + 1)
    except zlib.error as error:
        raise InputError(f"{file}: found no gzip ({error}); valid is a .tar.gz file.") from None
    if len(data) > MOST_BYTES:
        raise InputError(f"{file}: unpacks to more than {MOST_BYTES >> 20} MiB; valid is less.")
    if not reader.eof:
        raise InputError(f"{file}: is cut off; valid is a whole .tar.gz file.")
    return data


def _members(file: Path, data: bytes) -> dict[str, bytes]:
    """Contents of its files by name below the one folder that holds them."""
    found: dict[str, bytes] = {}
    tops: set[str] = set()
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for number, member in enumerate(archive):
                if number >= MOST_FILES:
                    raise InputError(f"{file}: found more than {MOST_FILES} files; valid is fewer.")
                top, _, name = member.name.partition("/")
                tops.add(top)
                if not (member.isreg() and _NAMES.fullmatch(name) and name not in found):
                    raise InputError(
                        f"{file}: found {member.name[:80]!r}; valid are the files of a bundle, "
                        "each once, in one folder."
                    )
                content = archive.extractfile(member)
                found[name] = b"" if content is None else content.read()
    except (tarfile.TarError, EOFError, OverflowError, ValueError) as error:
        raise InputError(f"{file}: found no tar file ({error}); valid is a .tar.gz file.") from None
    if len(tops) > 1:
        raise InputError(f"{file}: found {len(tops)} folders; valid is one bundle.")
    return found


def _check_hashes(file: Path, files: dict[str, bytes], listed: bytes | None) -> None:
    """That every file is listed with its hash, and nothing else is."""
    if listed is None:
        raise InputError(
            f"{file}: found no {HASHES_FILE}; valid is what `forecache observe --contributor` "
            "writes."
        )
    sums: dict[str, str] = {}
    for line in listed.decode("utf-8", errors="replace").splitlines():
        match = _SUM.fullmatch(line)
        if match is None:
            raise InputError(f"{file}: {HASHES_FILE}: found {line[:80]!r}; valid is HASH  NAME.")
        sums[match[2]] = match[1]
    if sums.keys() != files.keys():
        odd = sorted(sums.keys() ^ files.keys())[0]
        raise InputError(
            f"{file}: {HASHES_FILE}: {odd[:80]!r} is only there or only in the archive; valid is "
            "in both."
        )
    for name, data in files.items():
        if hashlib.sha256(data).hexdigest() != sums[name]:
            raise InputError(
                f"{file}: {name}: its contents are not those that {HASHES_FILE} says; valid is the "
                "file as `forecache observe` wrote it."
            )

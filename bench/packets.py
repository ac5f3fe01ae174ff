"""A packet trace like the one of thesis 3.6: several links, one packet a link and second, popular addresses first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

COLUMNS = "src INT, dst INT, protocol STRING, payload INT, at TIMESTAMP"
LINKS = ("link1", "link2", "link3")
START = 1_700_000_000_000_000
SECOND = 1_000_000

_SOURCES, _DESTINATIONS = 2_000, 50
_PROTOCOLS = ("ftp", "telnet", "http", "smtp")


@dataclass(frozen=True)
class Trace:
    """Packets for windows of `window` seconds, the same for the same `seed`.

    How many packets are ftp follows from the window: so that Query 1 has about as many results as a window has rows,
    and with telnet ten times as many, as in the thesis.
    """

    window: int
    seed: int = 7

    @property
    def shares(self) -> tuple[float, ...]:
        # Two packets meet when their sources are the same, which is this likely.
        meet = float((_popularity(_SOURCES) ** 2).sum())
        ftp = min(0.2, (1 / (meet * self.window)) ** 0.5)
        telnet = min(0.5, ftp * 10**0.5)
        return ftp, telnet, (1 - ftp - telnet) / 2, (1 - ftp - telnet) / 2

    def packets(self, link: str, first: int, count: int) -> pa.Table:
        """The packets number `first` and on of one link."""
        random = np.random.default_rng([self.seed, LINKS.index(link), first])
        sources = random.choice(_SOURCES, count, p=_popularity(_SOURCES)).astype(np.int32)
        # An address talks to few others: pairs are about ten times as many as sources.
        destinations = (sources * 31 + random.choice(_DESTINATIONS, count, p=_popularity(_DESTINATIONS))) % 65_536
        kinds = random.choice(len(_PROTOCOLS), count, p=self.shares)
        times = START + (first + np.arange(count)) * SECOND
        return pa.table(
            {
                "src": sources,
                "dst": destinations.astype(np.int32),
                "protocol": pa.array(_PROTOCOLS).take(pa.array(kinds)),
                "payload": random.integers(40, 1500, count, dtype=np.int32),
                "at": pa.array(times, pa.timestamp("us", tz="UTC")),
            }
        )


def _popularity(count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Zipf: the n-th most popular is 1/n as popular as the first."""
    weights = 1 / np.arange(1, count + 1)
    found: np.ndarray[tuple[int], np.dtype[np.float64]] = weights / weights.sum()
    return found

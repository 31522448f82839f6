# SPDX-License-Identifier: Apache-2.0
"""Topologies of machines and networks, and plans of trees over them, as dictionaries (tryst/topo.h).

One idea: the library's own JSON is the dictionary, so that what tryst-topo prints and what this returns are one."""

import json
import os
from typing import Any, Optional, Sequence, Union

from tryst._abi import NULL, ffi, load, names, sized, text
from tryst.errors import check, filled, opened

_topo: Any = None  # libtryst_topology, which few programs need: loaded at first use
_OPS = names("tryst_plan_op", "TRYST_PLAN_")


def _library() -> Any:
    global _topo
    if _topo is None:
        _topo = load("libtryst_topology")
    return _topo


def _text_of(call: Any, *arguments: Any) -> str:
    """Return the text that a call of the library writes."""
    with ffi.gc(opened("char", call, *arguments), _topo.tryst_text_free) as written:
        return text(written)


class Topology:
    """A graph of nodes and links, some of which are ranks. One thread at a time."""

    def __init__(self, handle: Any) -> None:
        self._handle = ffi.gc(handle, _topo.tryst_topo_close)

    @classmethod
    def detect(cls) -> "Topology":
        """This machine."""
        return cls(opened("tryst_topo", _library().tryst_topo_detect))

    @classmethod
    def load(cls, path: Union[str, "os.PathLike[str]"]) -> "Topology":
        """A file: a dump, cluster JSON, hwloc or NCCL XML; or words ("node:4 gpu:8 nic:2x50GB")."""
        return cls(opened("tryst_topo", _library().tryst_topo_load, os.fspath(path).encode()))

    @classmethod
    def parse(cls, source: Union[str, dict[str, Any]], name: str = "topology") -> "Topology":
        """The text of such a file, or cluster JSON as a dictionary."""
        data = (source if isinstance(source, str) else json.dumps(source)).encode()
        return cls(opened("tryst_topo", _library().tryst_topo_parse, data, len(data), name.encode()))

    def text(self, format: str = "text") -> str:
        """The topology as "json", "text" or "dot"."""
        return _text_of(_topo.tryst_topo_write, self._handle, format.encode(), NULL)

    def to_dict(self) -> dict[str, Any]:
        """The topology, which `parse` takes back."""
        return json.loads(self.text("json"))

    @property
    def ranks(self) -> list[str]:
        """The names of the ranks."""
        return [text(_topo.tryst_topo_rank_name(self._handle, rank)) for rank in range(_topo.tryst_topo_ranks(self._handle))]

    def route(self, source: int, to: int) -> dict[str, Any]:
        """The way between two ranks: hops, rate, latency, bottleneck."""
        return filled("tryst_route_info", _topo.tryst_topo_route, self._handle, source, to)

    def plan(self, op: str = "allreduce", *, root: int = 0, ranks: Optional[Sequence[int]] = None, trees_max: int = 0,
             gap_max: float = 0.0) -> dict[str, Any]:
        """Plan a collective: trees, shares, loads, the time of a byte, and the lower bound with its proof."""
        members = NULL if ranks is None else ffi.new("int32_t[]", list(ranks))
        params = sized("tryst_plan_params", op=_OPS[op], root=root, ranks=members, ranks_count=len(ranks or ()),
                       trees_max=trees_max, gap_max=gap_max)
        plan = ffi.gc(opened("tryst_plan", _topo.tryst_plan_open, self._handle, params), _topo.tryst_plan_close)
        with plan:
            return json.loads(_text_of(_topo.tryst_plan_json, plan))

    def verify(self, plan: dict[str, Any]) -> None:
        """Check a plan without the solver. Raises Error with the difference."""
        data = json.dumps(plan).encode()
        check(_topo.tryst_plan_verify(self._handle, data, len(data), b"plan"))

# SPDX-License-Identifier: Apache-2.0
"""Objects of a group that operations use: prepared keys and collectives, subgroups, registrations.

One idea: a Handle is closed by itself, by its `with`, or with its group, whichever comes first."""

from typing import Any, Sequence

from tryst._abi import NULL, as_dict, ffi, lib, sized, text
from tryst.errors import check, filled, opened


class Handle:
    """An object of the library. `handle` is NULL once it is closed, and the library then refuses it."""

    _release: Any

    def __init__(self, owner: Any, handle: Any) -> None:
        self.handle = handle
        owner._children.add(self)

    def close(self) -> None:
        """Give it back; operations that use it go on."""
        handle, self.handle = self.handle, NULL
        if handle:
            self._release(handle)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_error: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.close()


class Key(Handle):
    """A key that was parsed once. Its text: str(key)."""

    _release = staticmethod(lib.tryst_key_release)

    def __str__(self) -> str:
        return text(lib.tryst_key_string(self.handle))


class Registration(Handle):
    """Memory of an array that is registered with the fabrics: give tensors in it to any call."""

    _release = staticmethod(lib.tryst_mem_release)

    def __init__(self, owner: Any, handle: Any, keep: Any) -> None:
        super().__init__(owner, handle)
        self._keep = keep


class Subgroup(Handle):
    """Some ranks of a group, for collectives. Its ranks are numbered from 0, and roots are such numbers."""

    _release = staticmethod(lib.tryst_subgroup_close)

    @property
    def rank(self) -> int:
        """This rank's number in the subgroup."""
        return int(lib.tryst_subgroup_rank(self.handle))

    @property
    def size(self) -> int:
        """The number of its ranks."""
        return int(lib.tryst_subgroup_size(self.handle))

    @property
    def members(self) -> list[int]:
        """The ranks in the group, by number."""
        return [lib.tryst_subgroup_member(self.handle, number) for number in range(self.size)]


def members_of(ranks: Sequence[int], epoch: int) -> tuple[Any, Any]:
    """A tryst_subgroup_params, and the array that it points to."""
    members = ffi.new("int32_t[]", list(ranks))
    return sized("tryst_subgroup_params", epoch=epoch, count=len(members), members=members), members


class Collective(Handle):
    """A prepared collective (Group.prepare), which Calls.start starts, and how it is carried out."""

    _release = staticmethod(lib.tryst_coll_release)

    def __init__(self, group: Any, params: Any, keep: Any) -> None:
        super().__init__(group, opened("tryst_coll", lib.tryst_coll_prepare, group.handle, params))
        self._group, self._params, self._keep = group, params, keep

    def estimate(self) -> dict[str, Any]:
        """The lower bound of its time, the planned rate, the number of trees and the size of slices; 0: not known."""
        return filled("tryst_coll_info", lib.tryst_coll_estimate, self._group.handle, self._params)

    def tree(self, number: int, up: bool = False) -> list[int]:
        """The parent of each rank in a tree, -1 at its root; `up`: of the sums, else of the result."""
        parents = ffi.new("int32_t[]", self._group.size)
        check(lib.tryst_coll_tree(self._group.handle, self._params, number, up, parents))
        return list(parents)

    def order(self, number: int, ranks: Sequence[int], epoch: int = 0) -> dict[str, Any]:
        """In which order tree `number` of this all-reduce adds in the subgroup of `ranks`: the parent of each
        member, and the elements that the tree carries."""
        members, keep = members_of(ranks, epoch)
        order, parents = sized("tryst_coll_order"), ffi.new("int32_t[]", len(keep))
        check(lib.tryst_coll_order_get(self._group.handle, self._params, members, number, order, parents))
        return {**as_dict(order), "parents": list(parents)}

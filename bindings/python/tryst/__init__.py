# SPDX-License-Identifier: Apache-2.0
"""Tryst: asynchronous communication between ranks, by name.

    import numpy, tryst

    with tryst.open() as group:
        total = group.allreduce(numpy.ones(4, "f4")).wait()
"""

from tryst._abi import VERSION as __version__
from tryst.calls import Calls, Options
from tryst.errors import ContextError, Error, GroupError, PeerError, Status, WaitTimeout
from tryst.group import Group, Step, open
from tryst.handles import Collective, Key, Registration, Subgroup
from tryst.operation import Operation, wait_all, wait_any
from tryst.settings import checks, key_parse, launch, setting, settings, version
from tryst.tensors import Tensor
from tryst.topology import Topology

__all__ = ["Calls", "Collective", "ContextError", "Error", "Group", "GroupError", "Key", "Operation", "Options",
           "PeerError", "Registration", "Status", "Step", "Subgroup", "Tensor", "Topology", "WaitTimeout",
           "__version__", "checks", "key_parse", "launch", "open", "setting", "settings", "version",
           "wait_all", "wait_any"]

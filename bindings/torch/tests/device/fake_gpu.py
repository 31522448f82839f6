# SPDX-License-Identifier: Apache-2.0
"""The device `fakegpu` of PyTorch, over the CUDA driver of tests/support/fake_cuda (device.cc), and torch.fakegpu.

tryst takes its tensors as memory of CUDA. Without the build tree's fake driver the import fails with ImportError."""

import atexit
import contextlib
import sys
import types

import torch

import fake_gpu_C

atexit.register(fake_gpu_C.streams_close)  # runs after tryst_torch's function, which waits for copies of results

import tryst_torch  # noqa: E402

NAME = "fakegpu"  # letters alone: init_device_mesh takes no other

torch.utils.rename_privateuse1_backend(NAME)
module = types.ModuleType(f"torch.{NAME}")
module.is_available = lambda: True
module.is_initialized = lambda: True
module.device_count = fake_gpu_C.device_count
module.current_device = fake_gpu_C.device_get
module.set_device = lambda device: fake_gpu_C.device_set(torch.device(device).index if not isinstance(device, int) else device)
module.synchronize = lambda device=None: fake_gpu_C.drain()
module.Stream = torch.Stream
module.Event = torch.Event
module.current_stream = lambda device=None: torch.accelerator.current_stream()
module.set_stream = torch.accelerator.set_stream
module._is_in_bad_fork = lambda: False
module.manual_seed_all = lambda seed: None
module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
module.get_rng_state = lambda device=None: torch.get_rng_state()
module.set_rng_state = lambda state, device=None: torch.set_rng_state(state)


@contextlib.contextmanager
def stream(wanted):
    """Make `wanted` the current stream."""
    before = torch.accelerator.current_stream()
    torch.accelerator.set_stream(wanted)
    try:
        yield
    finally:
        torch.accelerator.set_stream(before)


module.stream = stream
torch._register_device_module(NAME, module)
torch.utils.generate_methods_for_privateuse1_backend()
tryst_torch._C.private_device_take()
torch.distributed.Backend.backend_capability["tryst"].append(NAME)
sys.modules[f"torch.{NAME}"] = module

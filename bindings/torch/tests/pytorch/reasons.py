# SPDX-License-Identifier: Apache-2.0
"""The tests that run over gloo and do not apply to tryst, with the reason of each."""

ANY_SOURCE = ("a receive from any source: a message of tryst is matched by a key that contains its sender; PyTorch's "
              "own list DistTestCases.skip_collective[\"sendrecv anysource\"] leaves out three of its backends likewise")

REASONS = {
    "test_send_recv_any_source": ANY_SOURCE,
    "test_send_recv_any_source_autograd_profiler": ANY_SOURCE,
    "test_send_recv_any_source_torch_profiler": ANY_SOURCE,
    "test_ddp_logging_data_cpu": ("it expects the backend's name in the log of DDP, where PyTorch writes \"custom\" for "
                                  "each backend that is registered from outside"),
}

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

# Tests of files of a PyTorch checkout (checkout_table.py) that pass over gloo alone.
DEVICE = "it calls create_device of gloo's backend; what follows is run by other tests"
LISTS = ("it gives one rank several tensors for one collective, which torch.distributed's functions do not; a rank of "
         "tryst gives one")
TEXTS = ("it expects gloo's texts of errors. Over tryst the same calls are refused with other texts, but for these, which "
         "run: lists of several sizes, an empty coalesced list and one of several dtypes, a list that is not the root's, "
         "and a number of the root's tensor")

CHECKOUT = {
    "CommTest.test_broadcast_coalesced_gloo_cpu": DEVICE,
    "DistributedDataParallelTest.test_gloo_backend_cpu_module": DEVICE,
    "DistributedDataParallelTest.test_gloo_backend_cpu_module_grad_is_view": DEVICE,
    "ProcessGroupGlooTest.test_allgather_basics": LISTS,
    "ProcessGroupGlooTest.test_allgather_noncontiguous_input": LISTS,
    "ProcessGroupGlooTest.test_allreduce_basics": LISTS,
    "ProcessGroupGlooTest.test_broadcast_basics": LISTS,
    "ProcessGroupGlooTest.test_sparse_allreduce_basics": LISTS,
    "ProcessGroupGlooTest.test_allgather_checks": TEXTS,
    "ProcessGroupGlooTest.test_allgather_coalesced_checks": TEXTS,
    "ProcessGroupGlooTest.test_allreduce_checks": TEXTS,
    "ProcessGroupGlooTest.test_allreduce_coalesced_checks": TEXTS,
    "ProcessGroupGlooTest.test_broadcast_checks": TEXTS,
    "ProcessGroupGlooTest.test_gather_checks": TEXTS,
    "ProcessGroupGlooTest.test_reduce_checks": TEXTS,
    "ProcessGroupGlooTest.test_scatter_checks": TEXTS,
    "ProcessGroupGlooTest.test_sparse_allreduce_checks": TEXTS,
}

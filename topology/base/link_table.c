/* SPDX-License-Identifier: Apache-2.0 */
#include "link_table.h"

#include <stdlib.h>
#include <string.h>

#include "decimal.h"

struct graph_number table_number(double bytes_per_s)
{
    return (struct graph_number){
        bytes_per_s, bytes_per_s == GRAPH_UNKNOWN ? ORIGIN_NONE : ORIGIN_TABLE};
}

/* PCI-SIG, PCI Express Base Specification 1.1 to 6.0: transfers per second and lane, and
 * the share of data bits: 8b/10b, then 128b/130b, then 242 of the 256 bytes of a flit. */
static const struct pci_row {
    double transfers_per_s, data_share;
} pci_rows[] = {
    {0, 0},
    {2.5e9, 8.0 / 10},
    {5e9, 8.0 / 10},
    {8e9, 128.0 / 130},
    {16e9, 128.0 / 130},
    {32e9, 128.0 / 130},
    {64e9, 242.0 / 256},
};
#define PCI_ROWS (sizeof pci_rows / sizeof pci_rows[0])

double table_pci_bytes_per_s(unsigned generation, unsigned lanes)
{
    if (!generation || generation >= PCI_ROWS || !lanes)
        return GRAPH_UNKNOWN;
    return pci_rows[generation].transfers_per_s * pci_rows[generation].data_share *
           lanes / 8;
}

unsigned table_pci_generation(const char *speed)
{
    /* "32.0 GT/s PCIe" since Linux 5.7, "32 GT/s" before; compared as text, since strtod
     * depends on the locale. */
    static const char *const words[] = {"", "2.5 ", "5", "8", "16", "32", "64"};
    for (unsigned i = 1; i < PCI_ROWS; i++) {
        size_t length = strlen(words[i]);
        if (strncmp(speed, words[i], length) == 0 &&
            (i == 1 || speed[length] == ' ' || strncmp(speed + length, ".0 ", 3) == 0))
            return i;
    }
    return 0;
}

/* NVIDIA's white papers: Tesla P100 (20 GB/s per link and direction), V100, A100 and H100
 * (25), Blackwell (50). */
double table_nvlink_bytes_per_s(unsigned generation, unsigned links)
{
    static const double rows[] = {0, 20e9, 25e9, 25e9, 25e9, 50e9};
    if (!generation || generation >= sizeof rows / sizeof rows[0] || !links)
        return GRAPH_UNKNOWN;
    return rows[generation] * links;
}

/* CUDA C++ Programming Guide, compute capabilities: 6.0 is Pascal's P100, 7.0 Volta's
 * V100, 8.x Ampere, 9.0 Hopper, 10.x Blackwell. */
unsigned table_nvlink_generation(unsigned capability)
{
    return capability >= 100  ? 5
           : capability >= 90 ? 4
           : capability >= 80 ? 3
           : capability >= 70 ? 2
           : capability >= 60 ? 1
                              : 0;
}

/* The values that NCCL uses (its src/graph/topo.h): effective rates, not line rates. */
static const struct upi_row {
    const char *arch, *model; /* substrings of the names; NULL: any */
    double bytes_per_s;
} upi_rows[] = {
    {"ppc64", NULL, 32e9}, /* P9_BW */
    {NULL, "EPYC", 16e9},  /* AMD_BW */
    {NULL, "XEON(R) PLATINUM 85", 40e9},
    {NULL, "Xeon(R) Platinum 85", 40e9},
    {NULL, "Xeon(R) Gold 65", 40e9},
    {NULL, "Xeon(R) Platinum 84", 22e9}, /* SRP_QPI_BW */
    {NULL, "Xeon(R) Gold 64", 22e9},
    {NULL, "Xeon(R) Platinum 8", 10e9}, /* SKL_QPI_BW */
    {NULL, "Xeon(R) Gold 6", 10e9},
};

double table_upi_bytes_per_s(const char *arch, const char *model)
{
    for (size_t i = 0; i < sizeof upi_rows / sizeof upi_rows[0]; i++) {
        const struct upi_row *row = &upi_rows[i];
        bool arch_fits = !row->arch || (arch && strstr(arch, row->arch));
        bool model_fits = !row->model || (model && strstr(model, row->model));
        if (arch_fits && model_fits)
            return row->bytes_per_s;
    }
    return GRAPH_UNKNOWN;
}

/* InfiniBand Architecture Specification, volume 1: SDR, DDR and QDR lose a fifth to
 * 8b/10b; later rates are named without their coding (64b/66b). */
double table_infiniband_bytes_per_s(const char *rate)
{
    double gigabits = 0;
    size_t digits = decimal_read(rate, strlen(rate), &gigabits);
    if (gigabits <= 0 || strncmp(rate + digits, " Gb/sec", 7) != 0)
        return GRAPH_UNKNOWN;
    bool coded = strstr(rate, "SDR") || strstr(rate, "DDR") || strstr(rate, "QDR");
    return gigabits * 1e9 / 8 * (coded ? 0.8 : 1);
}

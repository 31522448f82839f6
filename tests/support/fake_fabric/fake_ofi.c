/* SPDX-License-Identifier: Apache-2.0 */
/* libfabric with device memory: fi_getinfo claims device memory, and tables of functions
 * are replaced for each object by a copy that has a pointer to the real table. */
#include "fake_fabric.h"

#include <dlfcn.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "support/fake_cuda/fake_cuda.h"

#define EXPORT __attribute__((visibility("default")))

static struct fake_fabric_counts counted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void fake_fabric_counts(struct fake_fabric_counts *counts_p)
{
    pthread_mutex_lock(&lock);
    *counts_p = counted;
    pthread_mutex_unlock(&lock);
}

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "fake_fabric: %s\n", what);
    abort();
}

static void *reach(const void *data, int *device_p)
{
    void *at = fake_cuda_reach(data);
    CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    void *values[1] = {device_p};
    *device_p = -1;
    if (at != data)
        (void)cuPointerGetAttributes(1, &wanted, values, (CUdeviceptr)data);
    return at;
}

/* ---- the real library ---- */

/* Look up a function of the real library; *function_p: a pointer to a function of its
 * type. */
static void real(const char *name, void *function_p)
{
    static void *library;
    if (!library)
        library = dlopen("libfabric.so.1", RTLD_LAZY | RTLD_LOCAL);
    void *function = library ? dlsym(library, name) : NULL;
    must(function != NULL, name);
    memcpy(function_p, &function, sizeof function);
}

static unsigned setting(const char *name)
{
    const char *text = getenv(name);
    return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

/* A table that replaces a real one. `fid` is in the object that uses the table; never
 * freed, but reused. */
struct replaced {
    struct replaced *next;
    void *object;
    const void *real;
    bool forbidden; /* of an endpoint: CUDA's API is forbidden */
    union {
        struct fi_ops fid;
        struct fi_ops_fabric fabric;
        struct fi_ops_domain domain;
        struct fi_ops_mr mr;
        struct fi_ops_ep ep;
        struct fi_ops_msg msg;
        struct fi_ops_tagged tagged;
        struct fi_ops_cq cq;
    } table;
};
static struct replaced *all;

static struct replaced *replace(void *object, const void *table, size_t bytes)
{
    struct replaced *new = calloc(1, sizeof *new);
    must(new != NULL, "no memory");
    new->object = object;
    new->real = table;
    memcpy(&new->table, table, bytes);
    pthread_mutex_lock(&lock);
    new->next = all;
    all = new;
    pthread_mutex_unlock(&lock);
    return new;
}

static struct replaced *of(const void *table)
{
    return (struct replaced *)((char *)(uintptr_t)table -
                               offsetof(struct replaced, table));
}

#define REAL(type, table) ((const struct type *)of(table)->real)

/* ---- registrations, and operations that use them ---- */

enum { REGISTRATIONS_MAX = 4096, FLIGHTS_MAX = 16384 };
struct registration {
    char *start;
    size_t bytes;
    int device;
    struct fid_mr *mr; /* NULL: free */
};
static struct registration registrations[REGISTRATIONS_MAX];
static struct flight {
    void *context; /* NULL: free */
    struct fid_ep *ep;
    const struct registration *registration;
} flights[FLIGHTS_MAX];

static struct registration *registration_new(void)
{
    for (int i = 0; i < REGISTRATIONS_MAX; i++)
        if (!registrations[i].mr)
            return &registrations[i];
    abort();
}

static void flight_begin(void *context, struct fid_ep *ep,
                         const struct registration *registration)
{
    for (int i = 0; i < FLIGHTS_MAX; i++)
        if (!flights[i].context) {
            flights[i] = (struct flight){context, ep, registration};
            return;
        }
    abort();
}

/* End the flight of one operation, or of all operations of an endpoint that closes. */
static void flights_end(const void *context, const struct fid_ep *ep)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < FLIGHTS_MAX; i++)
        if (flights[i].context && (flights[i].context == context || flights[i].ep == ep))
            flights[i].context = NULL;
    pthread_mutex_unlock(&lock);
}

static int mr_close(struct fid *fid)
{
    const struct fi_ops *was = REAL(fi_ops, fid->ops);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < REGISTRATIONS_MAX; i++) {
        if (!registrations[i].mr || &registrations[i].mr->fid != fid)
            continue;
        for (int k = 0; k < FLIGHTS_MAX; k++)
            must(!flights[k].context || flights[k].registration != &registrations[i],
                 "a registration closed under an operation");
        registrations[i].mr = NULL;
    }
    pthread_mutex_unlock(&lock);
    return was->close(fid);
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                      struct fid_mr **mr_p)
{
    struct fid_domain *domain = (struct fid_domain *)fid;
    const struct fi_ops_mr *was = REAL(fi_ops_mr, domain->mr);
    struct iovec range = attr->mr_iov[0];
    struct fi_mr_attr host = *attr;
    unsigned each = setting("FAKE_FABRIC_REFUSES");
    int device, rc;
    char *at = reach(range.iov_base, &device);
    must((device >= 0) == (attr->iface == FI_HMEM_CUDA), "iface");
    if (device < 0)
        return was->regattr(fid, attr, flags, mr_p);
    must(attr->iov_count == 1 && attr->device.cuda == device, "device");
    pthread_mutex_lock(&lock);
    bool refused = each && ++counted.registrations % each == 0;
    counted.refusals += refused;
    pthread_mutex_unlock(&lock);
    if (refused)
        return -FI_EINVAL;
    host.mr_iov = &(struct iovec){at, range.iov_len};
    host.iface = FI_HMEM_SYSTEM;
    rc = was->regattr(fid, &host, flags, mr_p);
    if (rc != 0)
        return rc;
    struct replaced *new = replace(*mr_p, (*mr_p)->fid.ops, sizeof(struct fi_ops));
    new->table.fid.close = mr_close;
    (*mr_p)->fid.ops = &new->table.fid;
    pthread_mutex_lock(&lock);
    struct registration *made = registration_new();
    *made = (struct registration){range.iov_base, range.iov_len, device, *mr_p};
    pthread_mutex_unlock(&lock);
    (*mr_p)->mem_desc = made;
    return 0;
}

/* ---- endpoints ---- */

/* Return the host address of an operation's bytes, and in *desc_p the descriptor for the
 * real provider. */
static void *checked(struct fid_ep *ep, const void *data, size_t bytes, void **desc_p,
                     void *context, unsigned *count)
{
    const struct registration *registration = *desc_p;
    int device;
    void *at = reach(data, &device);
    if (device < 0 || bytes == 0)
        return at;
    must(of(ep->ops)->forbidden, "CUDA's API was not forbidden");
    must(registration >= registrations &&
             registration < registrations + REGISTRATIONS_MAX,
         "device memory without a descriptor");
    must(registration->mr && registration->device == device &&
             (const char *)data >= registration->start &&
             (const char *)data + bytes <= registration->start + registration->bytes,
         "a descriptor of something else");
    *desc_p = NULL;
    pthread_mutex_lock(&lock);
    ++*count;
    flight_begin(context, ep, registration);
    pthread_mutex_unlock(&lock);
    return at;
}

static ssize_t ep_tsend(struct fid_ep *ep, const void *data, size_t bytes, void *desc,
                        fi_addr_t to, uint64_t tag, void *context)
{
    void *at = checked(ep, data, bytes, &desc, context, &counted.sends);
    ssize_t rc =
        REAL(fi_ops_tagged, ep->tagged)->send(ep, at, bytes, desc, to, tag, context);
    if (rc != 0)
        flights_end(context, NULL);
    return rc;
}

static ssize_t ep_trecv(struct fid_ep *ep, void *data, size_t bytes, void *desc,
                        fi_addr_t from, uint64_t tag, uint64_t ignore, void *context)
{
    void *at = checked(ep, data, bytes, &desc, context, &counted.recvs);
    ssize_t rc = REAL(fi_ops_tagged, ep->tagged)
                     ->recv(ep, at, bytes, desc, from, tag, ignore, context);
    if (rc != 0)
        flights_end(context, NULL);
    return rc;
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t bytes)
{
    enum { CUDA_API_PERMITTED = 10 }; /* FI_OPT_CUDA_API_PERMITTED of 1.18 */
    struct fid_ep *ep = (struct fid_ep *)fid;
    struct replaced *mine = of(ep->ops);
    if (level != FI_OPT_ENDPOINT || name != CUDA_API_PERMITTED)
        return ((const struct fi_ops_ep *)mine->real)
            ->setopt(fid, level, name, value, bytes);
    must(bytes == sizeof(bool) && !*(const bool *)value, "forbid it");
    if (setting("FAKE_FABRIC_COPIES"))
        return -FI_EOPNOTSUPP;
    mine->forbidden = true;
    return 0;
}

static ssize_t ep_inject(struct fid_ep *ep, const void *data, size_t bytes, fi_addr_t to)
{
    static unsigned count;
    unsigned each = setting("FAKE_FABRIC_AGAIN");
    int device;
    (void)reach(data, &device);
    must(device < 0, "fi_inject of device memory");
    pthread_mutex_lock(&lock);
    bool again = each && ++count % each == 0;
    counted.agains += again;
    pthread_mutex_unlock(&lock);
    return again ? -FI_EAGAIN : REAL(fi_ops_msg, ep->msg)->inject(ep, data, bytes, to);
}

static int ep_close(struct fid *fid)
{
    const struct fi_ops *was = REAL(fi_ops, fid->ops);
    flights_end(NULL, (struct fid_ep *)fid);
    return was->close(fid);
}

static void ep_replace(struct fid_ep *ep)
{
    struct replaced *fid = replace(ep, ep->fid.ops, sizeof(struct fi_ops));
    struct replaced *ops = replace(ep, ep->ops, sizeof(struct fi_ops_ep));
    struct replaced *msg = replace(ep, ep->msg, sizeof(struct fi_ops_msg));
    struct replaced *tagged = replace(ep, ep->tagged, sizeof(struct fi_ops_tagged));
    fid->table.fid.close = ep_close;
    ops->table.ep.setopt = ep_setopt;
    msg->table.msg.inject = ep_inject;
    tagged->table.tagged.send = ep_tsend;
    tagged->table.tagged.recv = ep_trecv;
    ep->fid.ops = &fid->table.fid;
    ep->ops = &ops->table.ep;
    ep->msg = &msg->table.msg;
    ep->tagged = &tagged->table.tagged;
}

/* ---- completions ---- */

static ssize_t cq_read(struct fid_cq *cq, void *entries, size_t count)
{
    const struct fi_cq_tagged_entry *entry = entries;
    ssize_t got = REAL(fi_ops_cq, cq->ops)->read(cq, entries, count);
    for (ssize_t i = 0; i < got; i++)
        if (entry[i].op_context)
            flights_end(entry[i].op_context, NULL);
    return got;
}

static ssize_t cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry,
                          uint64_t flags)
{
    ssize_t got = REAL(fi_ops_cq, cq->ops)->readerr(cq, entry, flags);
    if (got > 0 && entry->op_context)
        flights_end(entry->op_context, NULL);
    return got;
}

static int domain_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr,
                          struct fid_cq **cq_p, void *context)
{
    int rc = REAL(fi_ops_domain, domain->ops)->cq_open(domain, attr, cq_p, context);
    if (rc != 0)
        return rc;
    must(attr->format == FI_CQ_FORMAT_TAGGED, "a queue of another format");
    struct replaced *new = replace(*cq_p, (*cq_p)->ops, sizeof(struct fi_ops_cq));
    new->table.cq.read = cq_read;
    new->table.cq.readerr = cq_readerr;
    (*cq_p)->ops = &new->table.cq;
    return 0;
}

/* ---- opening ---- */

/* Return a copy that the real library returned, or would have returned. */
static struct fi_info *without_claim(const struct fi_info *info)
{
    __typeof__(fi_dupinfo) *dup;
    real("fi_dupinfo", &dup);
    struct fi_info *copy = dup(info);
    must(copy != NULL, "no memory");
    copy->caps &= ~FI_HMEM;
    copy->tx_attr->caps &= ~FI_HMEM;
    copy->rx_attr->caps &= ~FI_HMEM;
    copy->domain_attr->mr_mode &= ~FI_MR_HMEM;
    return copy;
}

static void info_free(struct fi_info *info)
{
    __typeof__(fi_freeinfo) *was;
    real("fi_freeinfo", &was);
    was(info);
}

static int domain_endpoint(struct fid_domain *domain, struct fi_info *info,
                           struct fid_ep **ep_p, void *context)
{
    struct fi_info *plain = without_claim(info);
    int rc = REAL(fi_ops_domain, domain->ops)->endpoint(domain, plain, ep_p, context);
    info_free(plain);
    if (rc == 0)
        ep_replace(*ep_p);
    return rc;
}

static int fabric_domain(struct fid_fabric *fabric, struct fi_info *info,
                         struct fid_domain **domain_p, void *context)
{
    const struct fi_ops_fabric *was = REAL(fi_ops_fabric, fabric->ops);
    if (!(info->caps & FI_HMEM))
        return was->domain(fabric, info, domain_p, context);
    struct fi_info *plain = without_claim(info);
    int rc = was->domain(fabric, plain, domain_p, context);
    info_free(plain);
    if (rc != 0)
        return rc;
    struct replaced *ops =
        replace(*domain_p, (*domain_p)->ops, sizeof(struct fi_ops_domain));
    struct replaced *mr = replace(*domain_p, (*domain_p)->mr, sizeof(struct fi_ops_mr));
    ops->table.domain.endpoint = domain_endpoint;
    ops->table.domain.cq_open = domain_cq_open;
    mr->table.mr.regattr = mr_regattr;
    (*domain_p)->ops = &ops->table.domain;
    (*domain_p)->mr = &mr->table.mr;
    return 0;
}

EXPORT int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric_p,
                     void *context)
{
    __typeof__(fi_fabric) *was;
    real("fi_fabric", &was);
    int rc = was(attr, fabric_p, context);
    if (rc != 0)
        return rc;
    struct replaced *new =
        replace(*fabric_p, (*fabric_p)->ops, sizeof(struct fi_ops_fabric));
    new->table.fabric.domain = fabric_domain;
    (*fabric_p)->ops = &new->table.fabric;
    return 0;
}

EXPORT int fi_getinfo(uint32_t version, const char *node, const char *service,
                      uint64_t flags, const struct fi_info *hints,
                      struct fi_info **list_p)
{
    __typeof__(fi_getinfo) *was;
    real("fi_getinfo", &was);
    if (!hints || !(hints->caps & FI_HMEM))
        return was(version, node, service, flags, hints, list_p);
    must(hints->domain_attr->mr_mode & FI_MR_HMEM, "FI_MR_HMEM");
    struct fi_info *plain = without_claim(hints);
    int rc = was(version, node, service, flags, plain, list_p);
    info_free(plain);
    for (struct fi_info *info = rc == 0 ? *list_p : NULL; info; info = info->next) {
        info->caps |= FI_HMEM;
        info->tx_attr->caps |= FI_HMEM;
        info->rx_attr->caps |= FI_HMEM;
        info->domain_attr->mr_mode |= FI_MR_HMEM;
    }
    return rc;
}

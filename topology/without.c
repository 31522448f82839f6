/* SPDX-License-Identifier: Apache-2.0 */
/* What says that something was left out of the build: libxml2 (TRYST_HAVE_XML). */
#include "source.h"

#if !TRYST_HAVE_XML
tryst_status hwloc_xml_read(const struct source *source, struct graph **graph_p)
{
    (void)graph_p;
    return err_set(source->err, TRYST_E_UNSUPPORTED,
                   "%s: reading hwloc's XML needs a build with libxml2-dev",
                   source->name);
}

tryst_status nccl_xml_read(const struct source *source, struct graph **graph_p)
{
    (void)graph_p;
    return err_set(source->err, TRYST_E_UNSUPPORTED,
                   "%s: reading NCCL's XML needs a build with libxml2-dev", source->name);
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What says that something was left out of the build: hwloc, libxml2 or both. Which of them is compiled
 * in is CMakeLists.txt's word (TRYST_HAVE_HWLOC, TRYST_HAVE_XML). */
#include "detect_hwloc.h"
#include "source.h"

#if !TRYST_HAVE_HWLOC
tryst_status detect_hwloc(struct err *err, struct machine *machine)
{
    (void)machine;
    return err_set(err, TRYST_E_UNSUPPORTED, "built without hwloc");
}
#endif

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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built-in transports, in order of preference: the one place that names them.
 * Loadable ones (module_load.c) come after these.
 */
#include "transports/transport.h"

extern const struct transport_ops transport_self; /* self/self.c */
extern const struct transport_ops transport_shm;  /* shm/shm.c */

const struct transport_ops *const transport_builtin[] = {&transport_self, &transport_shm,
                                                         NULL};

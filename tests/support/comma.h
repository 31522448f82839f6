/* SPDX-License-Identifier: Apache-2.0 */
/* A locale with a decimal comma, for tests of numbers in text. Include unit.h too. */
#ifndef TRYST_TESTS_SUPPORT_COMMA_H
#define TRYST_TESTS_SUPPORT_COMMA_H

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/** Set a locale with a decimal comma, made here where the system has none. False, with a
 *  message, if that is impossible. */
static inline bool comma_set(void)
{
    char folder[] = "/tmp/tryst-locale-XXXXXX", command[256];
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8"))
        return true;
    bool made = mkdtemp(folder);
    snprintf(command, sizeof command,
             "localedef -c -i de_DE -f UTF-8 %s/comma.UTF-8 2>/dev/null", folder);
    made = made && system(command) == 0 && setenv("LOCPATH", folder, 1) == 0 &&
           setlocale(LC_NUMERIC, "comma.UTF-8");
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0 || !made)
        printf("left out: no locale has a comma, and localedef makes none\n");
    return made;
}

#endif

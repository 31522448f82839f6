#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The newest version of CHANGELOG.md, and that of the Debian packages, is the version of the project.
set -eu
newest=$(sed -n 's/^## \[\([0-9.]*\)\] - \(Unreleased\|[0-9]\{4\}-[0-9][0-9]-[0-9][0-9]\)$/\1/p' "$SOURCE/CHANGELOG.md" | head -n 1)
[ "$newest" = "$VERSION" ] || { echo "changelog: CHANGELOG.md begins with '$newest', the version is $VERSION"; exit 1; }
package=$(sed -n '1s/^tryst (\([0-9.]*\)\(-[0-9]*\)\{0,1\}) .*/\1/p' "$SOURCE/debian/changelog")
[ "$package" = "$VERSION" ] || { echo "changelog: debian/changelog begins with '$package', the version is $VERSION"; exit 1; }
grep -q "^Package: libtryst$SOVERSION\$" "$SOURCE/debian/control" ||
    { echo "changelog: debian/control has no package libtryst$SOVERSION"; exit 1; }

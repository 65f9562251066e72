#!/bin/sh
# Makes a Debian package of a wheel: build.sh WHEEL FOLDER, with PIP (a pip that can be run) and PYTHON (Debian's own).
# In it is an environment with the packages of deploy/requirements.lock, as in the image, but for the compiler, which
# would be nearly half of it. SOURCE_DATE_EPOCH dates it.
set -eu
umask 022
wheel=$1 folder=$2
here=$(CDPATH='' cd -- "$(dirname "$0")" && pwd)
python=${PYTHON:-/usr/bin/python3}
version=$(basename "$wheel" | cut -d- -f2)
interpreter=$("$python" -c 'import sys; print(f"python{sys.version_info[0]}.{sys.version_info[1]}")')
architecture=$(dpkg --print-architecture)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

opt=$stage/opt/proxyd
"/usr/bin/$interpreter" -m venv --without-pip "$opt"
awk '/^[a-z0-9]/ { kept = !/^(numba|llvmlite)==/ } kept' "$here/../requirements.lock" > "$stage/lock"
for each in "--require-hashes --only-binary :all: -r $stage/lock" "--no-deps $wheel"; do
    # shellcheck disable=SC2086
    $PIP --python "$opt/bin/python" install --quiet --no-compile --disable-pip-version-check $each
done
rm -r "$stage/lock" "$opt/include"
# What pip and venv wrote names the folder in which this was built
find "$opt/bin" -mindepth 1 ! -name 'python*' -delete
find "$opt/lib" -path '*.dist-info/*' -name direct_url.json -delete
sed -i '/direct_url\.json,/d; /^\.\.\/\.\.\/\.\.\/bin\//d' "$opt"/lib/*/site-packages/*.dist-info/RECORD
sed -i '/^command = /d' "$opt/pyvenv.cfg"
printf '#!/opt/proxyd/bin/python\nimport sys\nfrom proxyd.__main__ import main\nsys.exit(main())\n' > "$opt/bin/proxyd"
chmod 0755 "$opt/bin/proxyd"
# By hash, because unpacking changes times: nobody who runs proxyd may write the files of the package.
# All of them (-f): pip imports some packages when it installs the next, and their files would name this folder
"$opt/bin/python" -m compileall -q -f --invalidation-mode unchecked-hash -s "$stage" "$opt/lib" > "$stage.log" ||
    { cat "$stage.log"; exit 1; }
rm -f "$stage.log"

share=$stage/usr/share
install -d "$share/bash-completion/completions" "$share/zsh/vendor-completions"
"$opt/bin/python" -m proxyd completion bash > "$share/bash-completion/completions/proxyd"
"$opt/bin/python" -m proxyd completion zsh > "$share/zsh/vendor-completions/_proxyd"
install -D -m 0644 "$here/../../LICENSE" "$share/doc/proxyd/copyright"
install -D -m 0755 "$here/proxyd" "$stage/usr/bin/proxyd"
install -D -m 0644 -t "$stage/usr/lib/systemd/system" "$here/../systemd/proxyd.service" "$here/../systemd/proxyd@.service"
install -D -m 0644 "$here/../systemd/proxyd.toml" "$stage/etc/proxyd/proxyd.toml"
install -d "$stage/etc/proxyd/profiles"
install -d -m 0700 "$stage/etc/proxyd/secrets"

install -d "$stage/DEBIAN"
install -m 0755 -t "$stage/DEBIAN" "$here/preinst" "$here/postinst" "$here/prerm" "$here/postrm"
echo /etc/proxyd/proxyd.toml > "$stage/DEBIAN/conffiles"
(cd "$stage" && find opt usr etc -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) > "$stage/DEBIAN/md5sums"
cat > "$stage/DEBIAN/control" <<END
Package: proxyd
Version: $version
Architecture: $architecture
Section: net
Priority: optional
Maintainer: The authors of proxyd <https://github.com/proxyd/proxyd/issues>
Homepage: https://github.com/proxyd/proxyd
Installed-Size: $(du -sk --exclude=DEBIAN "$stage" | cut -f1)
Depends: $interpreter, init-system-helpers (>= 1.54~), ca-certificates, tzdata
Recommends: systemd (>= 250)
Description: watch feeds, web pages and sites, and tell what is new
 proxyd plans when to ask each source, so that what is new is seen soon with few
 requests, and sends signed webhooks, mails and chat messages. It has a dashboard,
 a reader, and a REST API.
END
find "$stage" -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH:-$(date +%s)}" {} +
mkdir -p "$folder"
dpkg-deb --root-owner-group -Zxz --build "$stage" "$folder/proxyd_${version}_$architecture.deb"

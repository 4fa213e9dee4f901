# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The kernels that the tests boot, by flavour name, and where each part of
# them lies in the cache. Sourced after common.sh.
#
#   6.1-debian   Debian's own image and headers, as they are
#   6.1-debug    Debian's source, allnoconfig + scripts/kernel/debug.config

IW_SOURCE_PACKAGE=linux-source-6.1
IW_FRAGMENT="$IW_TOP/scripts/kernel/debug.config"

is_flavour() {
    case " $IW_FLAVOURS " in
    *" $1 "*) return 0 ;;
    esac
    return 1
}

need_flavour() {
    is_flavour "$1" || die "no kernel is called '$1'" "use one of: $IW_FLAVOURS"
}

need_kernel_packages() {
    need_packages "$IW_SOURCE_PACKAGE" linux-headers-amd64 \
        make gcc g++ bc bison flex libelf-dev libc6-dev perl xz-utils cpio kmod \
        binutils pahole
}

# The release of Debian's kernel that linux-headers-amd64 stands for.
debian_release() {
    dpkg-query -W -f='${Depends}' linux-headers-amd64 |
        sed -n 's/.*linux-headers-\([^ ,]*\).*/\1/p'
}

source_dir() {
    printf '%s/src/%s-%s' "$IW_CACHE" "$IW_SOURCE_PACKAGE" \
        "$(package_version "$IW_SOURCE_PACKAGE")"
}

compiler_id() {
    gcc --version | head -n 1
}

# kernel_dir FLAVOUR: the cache directory, keyed by what it is made from.
kernel_dir() {
    case $1 in
    6.1-debian)
        printf '%s/kernels/%s-%s' "$IW_CACHE" "$1" \
            "$(package_version "linux-headers-$(debian_release)")"
        ;;
    6.1-debug)
        printf '%s/kernels/%s-%s' "$IW_CACHE" "$1" "$(hash_of \
            "$(package_version "$IW_SOURCE_PACKAGE")" \
            "$(sha256sum <"$IW_FRAGMENT")" "$(compiler_id)")"
        ;;
    esac
}

# kernel_build FLAVOUR: what `make -C` takes to build a module.
kernel_build() {
    case $1 in
    6.1-debian) printf '/lib/modules/%s/build' "$(debian_release)" ;;
    6.1-debug) printf '%s/build' "$(kernel_dir "$1")" ;;
    esac
}

# kernel_release FLAVOUR: what uname -r says in it.
kernel_release() {
    case $1 in
    6.1-debian) debian_release ;;
    6.1-debug) cat "$(kernel_dir "$1")/build/include/config/kernel.release" ;;
    esac
}

unpack_source() {
    # Left out: what no build here reads, which is most of the files.
    rm -rf "$1/linux"
    mkdir -p "$1/linux"
    tar -C "$1/linux" --strip-components=1 -xf "/usr/src/$IW_SOURCE_PACKAGE.tar.xz" \
        --exclude='*/drivers/gpu/drm/*/*.[ch]' \
        --exclude='*/drivers/net/ethernet/*.[ch]' \
        --exclude='*/drivers/net/wireless/*.[ch]' \
        --exclude='*/drivers/media/*.[ch]' \
        --exclude='*/drivers/staging/*.[ch]' \
        --exclude='*/sound/*/*.[ch]' \
        --exclude='*/tools/testing/selftests' \
        --exclude='*/Documentation/*.rst' \
        --exclude='*/Documentation/*/*.yaml' \
        --exclude='*.dts' --exclude='*.dtsi'
}

need_source() {
    need_packages "$IW_SOURCE_PACKAGE" xz-utils
    cached "$(source_dir)" quietly "unpacking $IW_SOURCE_PACKAGE" \
        "$IW_CACHE/log/unpack-source.log" unpack_source
}

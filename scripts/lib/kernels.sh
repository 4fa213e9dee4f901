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

# supported_kernels: those that Kbuild takes, by version.
supported_kernels() {
    sed -n 's/^mpa2-kernels := //p' "$IW_TOP/Kbuild"
}

is_supported() {
    case " $(supported_kernels) " in
    *" $(printf '%s' "$1" | cut -d. -f1,2) "*) return 0 ;;
    esac
    return 1
}

# not_supported RELEASE: the words for it.
not_supported() {
    printf 'kernel %s is not supported: iw_mpa2 is for %s' "$1" "$(supported_kernels)"
}

# The release of Debian's kernel that linux-headers-amd64 stands for.
debian_release() {
    dpkg-query -W -f='${Depends}' linux-headers-amd64 |
        sed -n 's/.*linux-headers-\([^ ,]*\).*/\1/p'
}

# source_package RELEASE: the source package of a kernel release, 6.1.0-57-amd64.
source_package() {
    printf 'linux-source-%s' "$(printf '%s' "$1" | cut -d. -f1,2)"
}

# source_dir [PACKAGE]
source_dir() {
    local package=${1:-$IW_SOURCE_PACKAGE}

    printf '%s/src/%s-%s' "$IW_CACHE" "$package" "$(package_version "$package")"
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

# kernel_build TARGET: what `make -C` takes to build a module. A target is a
# flavour or the release of a kernel whose headers are installed.
kernel_build() {
    case $1 in
    6.1-debian) printf '/lib/modules/%s/build' "$(debian_release)" ;;
    6.1-debug) printf '%s/build' "$(kernel_dir "$1")" ;;
    *) printf '/lib/modules/%s/build' "$1" ;;
    esac
}

# kernel_image FLAVOUR: what is booted. Debian's is unpacked, which spares the
# guest the work; with KASAN the entry that takes an ELF file crashes.
kernel_image() {
    case $1 in
    6.1-debian) printf '%s/vmlinux' "$(kernel_dir "$1")" ;;
    6.1-debug) printf '%s/build/arch/x86/boot/bzImage' "$(kernel_dir "$1")" ;;
    esac
}

# kernel_release TARGET: what uname -r says in it.
kernel_release() {
    case $1 in
    6.1-debian) debian_release ;;
    6.1-debug) cat "$(kernel_dir "$1")/build/include/config/kernel.release" ;;
    *) printf '%s' "$1" ;;
    esac
}

# need_kernel TARGET: have all that a module for it is built with.
need_kernel() {
    if is_flavour "$1"; then
        "$IW_TOP/scripts/build-kernel" "$1" >/dev/null
        return
    fi
    is_supported "$1" || die "$(not_supported "$1")"
    need_packages make gcc g++ libc6-dev binutils pahole kmod
    [ -e "$(kernel_build "$1")/Makefile" ] || need_packages "linux-headers-$1"
    [ -e "$(kernel_build "$1")/Makefile" ] ||
        die "no headers for kernel $1" "install its linux-headers package, or name another with KVER="
}

unpack_source() {
    local package=$1 dir=$2

    # Left out: what no build here reads, which is most of the files.
    rm -rf "$dir/linux"
    mkdir -p "$dir/linux"
    tar -C "$dir/linux" --strip-components=1 -xf "/usr/src/$package.tar.xz" \
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

# need_source [PACKAGE]: have Debian's kernel source unpacked in the cache.
need_source() {
    local package=${1:-$IW_SOURCE_PACKAGE}

    need_packages "$package" xz-utils
    cached "$(source_dir "$package")" quietly "unpacking $package" \
        "$IW_CACHE/log/unpack-$package.log" unpack_source "$package"
}

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what the build needs on Debian 12+ and Ubuntu 24.04+: with apt when root, else says the command and stops.
# usage: tools/install-deps.sh [--ci] [--video]
#   --ci: also what .ci/run needs; --video: also what a build with -DLATHE_FFMPEG=ON needs
set -eu

packages="build-essential cmake ninja-build pkg-config
  libjansson-dev libyaml-dev libpcre2-dev libutf8proc-dev libjpeg-dev libpng-dev libwebp-dev zlib1g-dev
  libdnnl-dev libcmocka-dev"
for option in "$@"; do
  case $option in
    --ci) packages="$packages git clang clang-format clang-tidy openmpi-bin" ;;
    --video) packages="$packages libavformat-dev libavcodec-dev libavutil-dev libswscale-dev" ;;
    *) echo "install-deps: there is no option $option" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null 2>&1; then
  echo "install-deps: this is no Debian or Ubuntu, so nothing was checked; the build needs what these packages hold:" $packages
  exit 0
fi

missing=""
for p in $packages; do
  case $(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true) in
    installed) ;;
    *) missing="$missing $p" ;;
  esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
  echo "install-deps: these packages are missing; install them and try again:" >&2
  echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
  exit 1
fi
echo "install-deps: installing$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# shellcheck disable=SC2086 # a list of words
apt-get install -q -y --no-install-recommends $missing

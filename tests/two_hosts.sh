#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ranks on two hosts, made of network namespaces joined by a pair of virtual cables: each has a name, an address and a TMPDIR of its
# own, so that Open MPI starts a daemon on the other and moves bytes by TCP. Needs root, iproute2 and Open MPI; run by hand.
# usage: tests/two_hosts.sh COMMAND...     for instance: tests/two_hosts.sh build/release/lathe train CONFIG.yaml
#        RANKS=4 tests/two_hosts.sh ...    as many ranks in all, half of them on each (4)
set -eu
[ $# -gt 0 ] || { sed -n '5,6s/^# //p' "$0"; exit 2; }
half=$((${RANKS:-4} / 2))
work=$(mktemp -d "${TMPDIR:-/tmp}/lathe-hosts.XXXXXX")
a=lathe-a$$ b=lathe-b$$
cleanup() {
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

ip netns add "$a"
ip netns add "$b"
ip link add eth0 netns "$a" type veth peer name eth0 netns "$b"
for host in 1 2; do
  ns=$([ $host = 1 ] && echo "$a" || echo "$b")
  mkdir "$work/$host"
  ip -n "$ns" address add 10.77.0.$host/24 dev eth0
  ip -n "$ns" link set eth0 up
  ip -n "$ns" link set lo up
done

# What Open MPI calls instead of ssh: HOST COMMAND...
cat >"$work/agent" <<AGENT
#!/bin/bash
shift
export TMPDIR=$work/2
exec ip netns exec $b unshare --uts bash -c "hostname host-b; \$*"
AGENT
chmod +x "$work/agent"

export TMPDIR=$work/1 PMIX_MCA_gds=hash
ip netns exec "$a" unshare --uts bash -c 'hostname host-a; exec "$@"' - \
  mpirun --allow-run-as-root --oversubscribe --bind-to none --timeout 300 --mca plm_rsh_agent "$work/agent" \
  --mca btl self,vader,tcp --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 \
  --host 10.77.0.1:$half,10.77.0.2:$half -n $((2 * half)) "$@"

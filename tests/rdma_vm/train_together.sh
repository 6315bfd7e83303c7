#!/usr/bin/env bash
# Two ranks train a small net over verbs, with lost packets on the way, and over tcp: the models must
# be equal to the last bit. Runs inside the emulated machine (run_tests.sh). In two machines that
# share a network (rdma_vm.sh --vms 2) each of them is a rank, started by hand with TOKEN, a file that
# both can read. With TRANSPORT=shm it runs anywhere, which is how the script itself is tried.
#
# usage: train_together.sh BUILD_FOLDER [TOKEN]
set -eu
build=$1 token=${2:-}
transport=${TRANSPORT:-verbs}
folder=$(mktemp -d)
trap 'rm -rf "$folder"; [ -z "${shaped:-}" ] || /usr/sbin/tc qdisc del dev veth0 root' EXIT
cd "$folder"

# 64 images of 8 x 8 (bytes of any file will do) and their labels.
{ printf '\0\0\10\3\0\0\0\100\0\0\0\10\0\0\0\10'; head -c 4096 "$build/kinet"; } >images
{ printf '\0\0\10\1\0\0\0\100'; for i in $(seq 0 63); do printf "\\$(printf %o $((i % 10)))"; done; } >labels
cat >net.prototxt <<'NET'
name: "small"
layer { name: "data" type: "MnistData" top: "data" top: "label" transform_param { scale: 0.004 }
        mnist_data_param { images: "images" labels: "labels" batch_size: 8 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 8 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
        inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
NET
# Times are ten times the usual ones: the machine is emulated.
cat >solver.prototxt <<'SOLVER'
net: "net.prototxt" base_lr: 0.05 momentum: 0.9 lr_policy: "fixed" max_iter: 40 display: 20 random_seed: 3
comm_param {
  heartbeat_interval: 5 heartbeat_timeout: 50 setup_timeout: 200
  verbs { devices: "rxe0,rxe1" timeout: 14 }
}
SOLVER
ranks=(--workers 2)
if [ -n "$token" ]; then
  sed -i 's/rxe0,rxe1/rxe2/' solver.prototxt
  (umask 077; cp "$token" token)
fi
if [ "$transport" = verbs ] && [ -z "$token" ]; then
  /usr/sbin/tc qdisc replace dev veth0 root netem loss 1% && shaped=yes
fi
port=7000
for t in "$transport" tcp; do
  if [ -n "$token" ]; then
    ranks=(--rank "$RDMA_VM_ID" --size 2 --rendezvous "10.78.0.1:$port" --token-file token)
    port=$((port + 1))
  fi
  "$build/kinet" train solver.prototxt "${ranks[@]}" --transport "$t" --out "run_$t" --verbose
done
if [ "${RDMA_VM_ID:-0}" != 0 ]; then exit 0; fi  # the files are rank 0's
grep -q '"loss"' "run_$transport/metrics.jsonl"
cmp "run_$transport/solver_iter_40.caffemodel" run_tcp/solver_iter_40.caffemodel
echo "the models are equal"

#!/bin/bash
# Runs a program on the machines of a Slurm job with Ray: sbatch slurm-ray.sh program.py [arguments]
#SBATCH --job-name=craton-ray
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=01:00:00
set -euo pipefail

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 10000))
cores=${SLURM_CPUS_PER_TASK:-$(nproc)}

# Ray's processes authenticate each other with a token in the home folder, which all machines share.
ray get-auth-token --generate > /dev/null

# Ray starts on every machine, and the program on the first one. When the program ends, Ray ends, too.
srun --nodes="$SLURM_NNODES" --ntasks="$SLURM_NNODES" \
    ray symmetric-run --address "$head:$port" --min-nodes "$SLURM_NNODES" --num-cpus "$cores" -- \
    python -m craton --cluster ray:auto "$@"

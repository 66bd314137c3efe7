//! What `--help` and the manual pages show below each subcommand: the command lines that are typed most.

pub const ALL: &str = "\
Examples:
  mpi-connect run -- mpirun.openmpi -n 4 ./air &
  mpi-connect run -- mpirun.mpich -n 2 ./ocean
  mpi-connect launch coupled.toml
  mpi-connect names
  mpi-connect doctor ./air";

pub const RUN: &str = "\
Examples:
  mpi-connect run -- mpirun -n 4 ./air
  mpi-connect run --naming file:/scratch/me/names -- srun -n 64 ./ocean
  mpi-connect run --naming tcp://login1:7431 --log info -- mpiexec -n 8 ./ocean
  mpi-connect run -- mpirun -n 4 python air.py
  mpi-connect run --print -- mpirun -n 4 ./air";

pub const LAUNCH: &str = "\
Examples:
  mpi-connect launch --dry-run coupled.toml
  mpi-connect launch coupled.toml
  mpi-connect launch --json coupled.toml | jq -c 'select(.event != \"output\")'
  mpi-connect launch --sbatch coupled.toml | sbatch
  mpi-connect launch --status
  mpi-connect launch --stop coupled.toml";

pub const NAMES: &str = "\
Examples:
  mpi-connect names
  mpi-connect names 'ocean*' --where grid=t63
  mpi-connect names --watch
  mpi-connect names --naming tcp://login1:7431 --json";

pub const SERVE: &str = "\
Examples:
  mpi-connect serve
  mpi-connect serve --listen 10.1.0.7:7431
  mpi-connect serve --store ~/mpi-connect.names --metrics
  MPI_CONNECT_NAMING=tcp://10.1.0.7:7431 mpi-connect run -- mpirun -n 4 ./air";

pub const RELAY: &str = "\
Examples:
  mpi-connect relay
  mpi-connect relay --listen 10.1.0.254:7433 --listen 10.2.0.254:7433
  mpi-connect relay --next gateway.other.site:7433
  MPI_CONNECT_RELAY=10.1.0.254:7433 mpi-connect run -- mpirun -n 4 ./air";

pub const CTL: &str = "\
Examples:
  mpi-connect ctl air lanes
  mpi-connect ctl air lanes --json | jq '.processes[].pairs[] | .transport'
  mpi-connect ctl air lanes --watch
  mpi-connect ctl air switch tcp --peer ocean
  mpi-connect ctl air hold";

pub const TOP: &str = "\
Examples:
  mpi-connect top air
  mpi-connect top air --every 5
  mpi-connect top air --once";

pub const CP: &str = "\
Examples:
  mpi-connect cp air:out.nc .
  mpi-connect cp air:/scratch/air/out.nc yesterday.nc
  mpi-connect cp restart.nc air:in/
  MPI_CONNECT_FILES=out:ro,in:rw mpi-connect run -- mpirun -n 4 ./air";

pub const KEY: &str = "\
Examples:
  mpi-connect key show
  scp $(mpi-connect key path) node2:.config/mpi-connect/key
  mpi-connect key new
  mpi-connect key new --replace";

pub const DOCTOR: &str = "\
Examples:
  mpi-connect doctor
  mpi-connect doctor ./air
  mpi-connect doctor -v --prefix /opt/mpich
  mpi-connect doctor --json | jq .verdict";

pub const CHECKPOINT: &str = "\
Examples:
  mpi-connect checkpoint ls checkpoints
  mpi-connect checkpoint verify checkpoints
  mpi-connect checkpoint rm checkpoints
  mpi-connect checkpoint rm --all checkpoints";

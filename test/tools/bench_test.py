# SPDX-License-Identifier: BSD-3-Clause
"""ringcomm-bench and ringcomm-info as programs: command lines, output forms, figures, checks.

Usage: bench_test.py RINGCOMM_BENCH RINGCOMM_INFO [TestClass[.test] ...]
"""
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

BENCH, INFO = sys.argv[1:3]

COLUMNS = ('collective,transport,algorithm,memory,ranks,bytes,dtype,op,in_place,iters,min_us,'
           'median_us,p99_us,span_us,algbw_GBps,busbw_GBps,errors')
KERNEL_COLUMNS = 'name,variant,dtype,op,nsrcs,bytes,us,GBps'


def run(program, *args, env=None, timeout=150):
    # Variables of a surrounding launcher would change the results.
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith('RINGCOMM_') and k not in ('RANK', 'WORLD_SIZE', 'MASTER_ADDR',
                                                            'MASTER_PORT', 'LOCAL_RANK')}
    clean.update(env or {})
    return subprocess.run([program, *args], env=clean, capture_output=True, text=True,
                          timeout=timeout, check=False)


# Collectives with a buffer of one block per rank.
PER_RANK = ('scatter', 'gather', 'all_gather', 'reduce_scatter', 'all_to_all', 'scatter_v',
            'gather_v', 'all_gather_v', 'reduce_scatter_v', 'all_to_all_v')

NEVER_IN_PLACE = ('barrier', 'sendrecv', 'all_to_all_v')


class Bench(unittest.TestCase):
    def bench(self, *args, env=None, status=0):
        done = run(BENCH, *args, env=env)
        self.assertEqual(done.returncode, status, f'{args}\n{done.stdout}\n{done.stderr}')
        return done

    def rows(self, *args, env=None, status=0):
        done = self.bench(*args, '--csv', '-', env=env, status=status)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], COLUMNS)
        return list(csv.DictReader(io.StringIO(done.stdout)))

    def check_figures(self, row):
        low, mid, high = (float(row[k]) for k in ('min_us', 'median_us', 'p99_us'))
        self.assertGreater(low, 0)
        self.assertLessEqual(low, mid)
        self.assertLessEqual(mid, high)
        self.assertGreaterEqual(float(row['span_us']), low * 0.99)
        self.assertGreater(int(row['iters']), 0)
        algbw = int(row['bytes']) / mid / 1e3
        self.assertAlmostEqual(float(row['algbw_GBps']), algbw, delta=1e-4 + algbw * 1e-2)
        n = int(row['ranks'])
        factor = (2 * (n - 1) / n if row['collective'] == 'all_reduce' else
                  (n - 1) / n if row['collective'] in PER_RANK else 1)
        self.assertAlmostEqual(float(row['busbw_GBps']), algbw * factor, delta=1e-4 + algbw * 1e-2)


class Results(Bench):
    def check_all(self, ranks, transport, *more):
        rows = self.rows('all', '--ranks', str(ranks), '--transport', transport, '-b', '4', '-e',
                         '256K', '-f', '16', '-n', '10', '--check', *more)
        wanted = ['all_reduce'] * 5 + ['broadcast'] * 5 + ['barrier'] + ['reduce'] * 5
        sizes = 5 if ranks == 1 else 4  # from one element per block on
        per_rank = [name for name in PER_RANK for _ in range(sizes)]
        first_uneven = per_rank.index('scatter_v')
        wanted += per_rank[:first_uneven] + ['scan'] * 5 + ['exscan'] * 5
        wanted += per_rank[first_uneven:]
        wanted += ['sendrecv'] * 5 if ranks > 1 else []
        self.assertEqual([r['collective'] for r in rows], wanted)
        for row in rows:
            self.assertEqual(row['errors'], '0', row)
            self.assertEqual(row['transport'], transport if ranks > 1 else 'self', row)
            self.assertEqual(int(row['ranks']), ranks)
            self.assertEqual(row['iters'], '10')
            self.assertEqual(row['memory'], 'host')
            self.check_figures(row)
        self.assertEqual([int(r['bytes']) for r in rows[:5]], [4, 64, 1024, 16384, 262144])
        self.assertEqual([int(r['bytes']) for r in rows if r['collective'] == 'barrier'], [0])

    def test_one_rank_shm(self):
        self.check_all(1, 'shm')

    def test_one_rank_tcp(self):
        self.check_all(1, 'tcp')

    def test_two_ranks_shm(self):
        self.check_all(2, 'shm')

    def test_two_ranks_tcp(self):
        self.check_all(2, 'tcp')

    def test_three_ranks_as_threads(self):
        self.check_all(3, 'shm', '--threads')
        self.check_all(3, 'tcp', '--threads')

    def test_in_place(self):
        for ranks in ('3', '4'):
            for row in self.rows('all', '--ranks', ranks, '-b', '12', '-e', '192K', '-f', '16', '-n',
                                 '5', '--check', '--in-place', '--offset', '4', '--root', '2'):
                self.assertEqual(row['errors'], '0', row)
                self.assertEqual(row['in_place'],
                                 '0' if row['collective'] in NEVER_IN_PLACE else '1')

    def test_types_and_operators(self):
        for dtype in ('float32', 'float64', 'int32', 'int64'):
            for op in ('sum', 'prod', 'min', 'max'):
                rows = self.rows('all_reduce', '--ranks', '3', '-b', '1000', '-e', '64K', '-f',
                                 '60', '-n', '4', '-d', dtype, '-o', op, '--check')
                self.assertEqual([r['errors'] for r in rows], ['0', '0'])
                self.assertEqual({(r['dtype'], r['op']) for r in rows}, {(dtype, op)})

    def test_in_place_and_offset(self):
        rows = self.rows('all_reduce', '--ranks', '2', '-e', '64K', '-n', '5', '--in-place',
                         '--offset', '12', '--check')
        self.assertEqual({(r['errors'], r['in_place']) for r in rows}, {('0', '1')})

    def test_every_root(self):
        for root in range(3):
            rows = self.rows('broadcast', '--ranks', '3', '--root', str(root), '-e', '16K', '-n',
                             '5', '--check')
            self.assertEqual({r['errors'] for r in rows}, {'0'})

    def test_named_by_size(self):
        """Rank 0's file applies to all; RINGCOMM_ALGORITHM overrides it; the last resort is the
        price."""
        with tempfile.NamedTemporaryFile('w', suffix='.conf') as f:
            f.write('all_reduce = ring:0-64, binomial:64K-\nshm_mib = 0\nshm_hop = 1\nsum_mib = 0\n')
            f.flush()
            names = []
            for more in ({}, {'RINGCOMM_ALGORITHM': 'all_reduce=recursive_doubling:64K-'}):
                rows = self.rows('all_reduce', '--ranks', '2', '--transport', 'shm,tcp', '--sizes',
                                 '8,4K,64K', '-n', '5', env={'RINGCOMM_TUNING': f.name, **more})
                names.append([r['algorithm'] for r in rows])
        self.assertEqual(names, [['ring', 'one_shot', 'binomial'],
                                 ['ring', 'one_shot', 'recursive_doubling']])

    def test_every_algorithm(self):
        listed = csv.DictReader(io.StringIO(run(INFO, '--algorithms', '--csv', '-').stdout))
        names = [tuple(r['name'].split('=')) for r in listed]
        self.assertGreater(len(names), 0)
        for collective, algorithm in names:
            args = (collective, '--ranks', '3', '--transport', 'shm', '--sizes', '20000', '-n', '5',
                    '--algorithm', algorithm, '--check')
            if algorithm.startswith('two_level'):
                err = self.bench(*args, status=1).stderr
                self.assertIn(f'{algorithm} cannot run 3 ranks on 1 host (RCM_ERR_UNSUPPORTED)', err)
                continue
            rows = self.rows(*args)
            self.assertEqual([(r['algorithm'], r['errors']) for r in rows], [(algorithm, '0')])

    def test_iterations_by_time(self):
        rows = self.rows('all_reduce', '--ranks', '2', '-b', '8', '-e', '8', '--check')
        self.assertTrue(5 <= int(rows[0]['iters']) <= 1000)
        self.assertEqual(rows[0]['errors'], '0')

    def test_without_check_errors_are_empty(self):
        rows = self.rows('all_reduce', '--ranks', '2', '-b', '8', '-e', '8', '-n', '5')
        self.assertEqual(rows[0]['errors'], '')

    def test_empty_buffers(self):
        rows = self.rows('all_reduce', '--ranks', '2', '-b', '0', '-e', '16', '-n', '5', '--check')
        self.assertEqual([r['bytes'] for r in rows], ['0', '4', '16'])
        self.assertEqual({r['errors'] for r in rows}, {'0'})

    def test_flipped_bit_is_an_error(self):
        for collective in ('all_reduce', 'broadcast', 'sendrecv'):
            rows = self.rows(collective, '--ranks', '2', '-b', '1K', '-e', '4K', '--check',
                             env={'RINGCOMM_BENCH_FLIP': '1'}, status=1)
            self.assertEqual([r['errors'] for r in rows], ['1', '1'])
        done = self.bench('all_reduce', '--ranks', '1', '-e', '4', '--check',
                          env={'RINGCOMM_BENCH_FLIP': '1'}, status=1)
        self.assertIn('1 wrong element', done.stderr)

    def test_list_of_sizes(self):
        rows = self.rows('all_reduce', '--ranks', '2', '--sizes', '64K,12,1000', '-n', '5',
                         '--check')
        self.assertEqual([(r['bytes'], r['errors']) for r in rows],
                         [('65536', '0'), ('12', '0'), ('1000', '0')])

    def test_last_iteration_is_checked(self):
        for ranks, more in (('2', []), ('2', ['--fresh']), ('2', ['--calls', '7']),
                            ('3', ['--calls', '3', '--fresh'])):
            rows = self.rows('all', '--ranks', ranks, '--sizes', '8,20000', '-n', '6',
                             '--check-last', *more)
            self.assertEqual({r['errors'] for r in rows}, {'0'}, more)
        for collective in ('all_reduce', 'broadcast', 'sendrecv'):
            for more in ([], ['--fresh']):
                rows = self.rows(collective, '--ranks', '2', '--sizes', '1K,4K', '--check-last',
                                 *more, env={'RINGCOMM_BENCH_FLIP': '1'}, status=1)
                self.assertEqual([r['errors'] for r in rows], ['1', '1'])

    def test_time_of_one_of_many_calls(self):
        one = self.rows('barrier', '--ranks', '2', '-n', '20')[0]
        many = self.rows('barrier', '--ranks', '2', '-n', '5', '--calls', '1000')[0]
        # Generous: without the division it would be 1,000 times as long.
        self.assertLess(float(many['median_us']), 200 * float(one['median_us']))

    def test_ranks_begin_together(self):
        # Iterations in which a rank starts more than 1 us late are discarded, so no span is longer
        # than that plus the slowest rank's time. Ranks without a CPU each rarely start together.
        for ranks, transport in (('2', 'shm'), ('2', 'tcp'), ('4', 'tcp')):
            done = run(BENCH, 'broadcast', '--ranks', ranks, '--transport', transport, '--sizes',
                       '8,4K', '-n', '100', '--check', '--together', '--csv', '-')
            if done.returncode == 1:
                self.assertIn('--together: no iteration of 100 of', done.stderr)
                continue
            self.assertEqual(done.returncode, 0, done.stderr)
            for row in csv.DictReader(io.StringIO(done.stdout)):
                self.check_figures(row)
                self.assertEqual(row['errors'], '0')
                self.assertLessEqual(int(row['iters']), 100)
                self.assertLessEqual(float(row['span_us']), float(row['median_us']) + 1.002)

    def test_asleep(self):
        for ranks, more in ((2, ['--check']), (4, ['--check-last', '--fresh']), (3, ['--threads'])):
            rows = self.rows('all', '--ranks', str(ranks), '--transport', 'shm', '-n', '6',
                             '--asleep', *more)
            self.assertEqual([int(r['bytes']) for r in rows if r['collective'] == 'sendrecv'],
                             [8, 32, 128, 512, 2048])
            for row in rows:
                self.check_figures(row)
                self.assertEqual(row['errors'], '' if more == ['--threads'] else '0')
                self.assertEqual(row['span_us'], row['median_us'])
                self.assertLessEqual(int(row['iters']), 6)

    def test_ranks_sleep_a_millisecond_between_iterations(self):
        began = time.monotonic()
        self.rows('barrier', '--ranks', '2', '-n', '400', '--asleep')
        self.assertGreater(time.monotonic() - began, 0.4)

    def launched(self, nranks, *args, envs=None):
        """Ranks as a launcher starts them, with rank, size and store in the environment."""
        with tempfile.TemporaryDirectory() as folder:
            ranks = []
            for rank in range(nranks):
                env = dict(os.environ, RINGCOMM_RANK=str(rank), RINGCOMM_WORLD_SIZE=str(nranks),
                           RINGCOMM_URL=f'file://{folder}/store?world_size={nranks}',
                           **(envs[rank] if envs else {}))
                ranks.append(subprocess.Popen([BENCH, *args], env=env, text=True,
                                              stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            outputs = [r.communicate(timeout=50) for r in ranks]
        return [r.returncode for r in ranks], outputs

    def test_ranks_of_a_launcher(self):
        codes, outputs = self.launched(3, 'all_reduce', '-b', '8', '-e', '2K', '-f', '16', '-n',
                                       '5', '--check', '--csv', '-')
        self.assertEqual(codes, [0, 0, 0], outputs)
        self.assertEqual([out for out, _ in outputs[1:]], ['', ''])
        rows = list(csv.DictReader(io.StringIO(outputs[0][0])))
        self.assertEqual([(r['ranks'], r['bytes'], r['errors']) for r in rows],
                         [('3', '8', '0'), ('3', '128', '0'), ('3', '2048', '0')])

    def test_root_beyond_the_launchers_ranks(self):
        codes, outputs = self.launched(2, 'broadcast', '--root', '2', '-n', '5')
        self.assertEqual(codes, [2, 2], outputs)
        self.assertIn('--root 2: the ranks are 0 to 1', outputs[0][1])
        self.assertEqual(outputs[1][1], '')

    def test_no_common_moment_on_several_machines(self):
        hosts = [{'RINGCOMM_HOST_ID': f'host-{rank}'} for rank in range(2)]
        for option in ('--together', '--asleep'):
            codes, outputs = self.launched(2, 'broadcast', option, '-n', '5', envs=hosts)
            self.assertEqual(codes, [2, 2], outputs)
            self.assertIn(f'{option}: the 2 ranks are on several machines', outputs[0][1])

    def test_timeout_bounds_the_run(self):
        done = self.bench('all_reduce', '--ranks', '2', '-b', '1M', '-e', '1M', '-n', '1000000',
                          '--timeout', '1.5', status=1)
        self.assertIn('ringcomm-bench', done.stderr)


class Output(Bench):
    def test_table(self):
        done = self.bench('all_reduce', '--ranks', '2', '-b', '8', '-e', '8', '-n', '5')
        lines = done.stdout.splitlines()
        notes = [line for line in lines if line.startswith('# ')]
        self.assertEqual(lines[:len(notes)], notes)
        for name in ('ringcomm-bench', 'host', 'cores', 'kernel', 'command', 'ranks', 'transport'):
            self.assertTrue(any(n.startswith(f'# {name}: ') for n in notes), name)
        self.assertEqual(','.join(lines[len(notes)].split()), COLUMNS)
        self.assertEqual(len(lines[len(notes) + 1].split()), len(COLUMNS.split(',')))
        self.assertEqual(done.stderr, '')

    def test_json_on_stdout(self):
        done = self.bench('all_reduce', '--ranks', '2', '-e', '1K', '-n', '5', '--json', '-')
        data = json.loads(done.stdout)
        self.assertIn('--json -', data['info']['command'])
        self.assertEqual([r['bytes'] for r in data['rows']], [4, 16, 64, 256, 1024])
        for row in data['rows']:
            self.assertEqual(','.join(row), COLUMNS)
            self.assertIsInstance(row['median_us'], float)
            self.assertIsNone(row['errors'])

    def test_all_forms_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            as_csv, as_json = os.path.join(folder, 'a.csv'), os.path.join(folder, 'a.json')
            done = self.bench('barrier', '--ranks', '2', '-n', '5', '--csv', as_csv, '--json',
                              as_json)
            self.assertIn('barrier', done.stdout)
            with open(as_csv, encoding='utf-8') as file:
                self.assertEqual(file.readline().rstrip('\n'), COLUMNS)
                self.assertEqual(len(file.readlines()), 1)
            with open(as_json, encoding='utf-8') as file:
                self.assertEqual(json.load(file)['rows'][0]['collective'], 'barrier')

    def test_cannot_write(self):
        done = self.bench('barrier', '--ranks', '2', '-n', '5', '--csv', '/nonexistent/a.csv',
                          status=1)
        self.assertIn("/nonexistent/a.csv", done.stderr)
        if os.path.exists('/dev/full'):
            done = self.bench('barrier', '--ranks', '1', '-n', '5', '--csv', '/dev/full', status=1)
            self.assertIn('/dev/full', done.stderr)

    def test_plot(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "it's.svg")
            args = ('all', '--ranks', '2', '-e', '16K', '-n', '5', '--plot', path)
            done = run(BENCH, *args)
            if done.returncode == 0:
                with open(path, encoding='utf-8') as file:
                    self.assertIn('</svg>', file.read())
            else:
                self.assertIn('gnuplot is not installed', done.stderr)
            done = self.bench(*args, env={'PATH': folder}, status=1)
            self.assertIn('gnuplot is not installed', done.stderr)

    def test_kernel(self):
        done = self.bench('kernel', '-b', '4K', '-e', '16K', '-n', '5', '-d', 'int64', '-o', 'max',
                          '--offset', '8', '--csv', '-')
        self.assertEqual(done.stdout.splitlines()[0], KERNEL_COLUMNS)
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual({r['nsrcs'] for r in rows if r['name'] == 'reduce'}, set('2345678'))
        self.assertEqual({r['name'] for r in rows},
                         {'reduce', 'reduce_streaming', 'copy', 'copy_vectors', 'copy_streaming'})
        self.assertEqual(len(rows), 2 * (7 + 7 + 1 + 1 + 1))
        for row in rows:
            us = float(row['us'])
            moved = int(row['bytes']) * (int(row['nsrcs']) + 1)
            self.assertGreater(us, 0)
            self.assertAlmostEqual(float(row['GBps']) / (moved / us / 1e3), 1, delta=0.01)


class Usage(Bench):
    def refused(self, sentence, *args):
        done = self.bench(*args, status=2)
        self.assertIn(sentence, done.stderr)
        self.assertEqual(done.stdout, '')

    def test_sentences(self):
        self.refused('COLLECTIVE is missing')
        self.refused("'all_recude': no such collective", 'all_recude')
        self.refused("'barrier': only one COLLECTIVE is allowed", 'all', 'barrier')
        self.refused("--ranks '0': not a whole number", 'all', '--ranks', '0')
        self.refused("--ranks '2x': not a whole number", 'all', '--ranks', '2x')
        self.refused("-b '4X': not a size", 'all', '-b', '4X')
        self.refused("-b '-4': not a size", 'all', '-b', '-4')
        self.refused("-e '99999999999G': not a size", 'all', '-e', '99999999999G')
        self.refused('-b 2048 is more than -e 1024', 'all', '-b', '2K', '-e', '1K')
        self.refused("-f '1': not a whole number", 'all', '-f', '1')
        self.refused("-n '0': not a whole number", 'all', '-n', '0')
        self.refused("-d 'float33': no such type; there are uint8", 'all', '-d', 'float33')
        self.refused("-o 'add': no such operator; there are sum", 'all', '-o', 'add')
        self.refused('--root 2: the ranks are 0 to 1', 'broadcast', '--ranks', '2', '--root', '2')
        self.refused("--transport 'carrier_pigeon': no such transport; there are auto",
                     'all', '--transport', 'carrier_pigeon')
        self.refused("--transport 'pigeon': no such transport", 'all', '--transport', 'tcp,pigeon')
        self.refused("--algorithm 'magic': no such algorithm of all_reduce; there are auto",
                     'all_reduce', '--algorithm', 'magic')
        self.refused('sendrecv has no choice of algorithms', 'sendrecv', '--algorithm', 'ring')
        self.refused('choose one', 'all', '--memory', 'cuda', '--registered')
        self.refused("--memory 'attic'", 'all', '--memory', 'attic')
        self.refused('--offset 3: not a multiple of the 4 bytes', 'all', '--offset', '3')
        self.refused("--timeout 'soon'", 'all', '--timeout', 'soon')
        self.refused("--timeout '0'", 'all', '--timeout', '0')
        self.refused('both write to stdout', 'all', '--csv', '-', '--json', '-')
        self.refused('--threads needs --ranks', 'all', '--threads')
        self.refused('needs at least 2 ranks', 'sendrecv', '--ranks', '1')
        self.refused('--ranks does not apply to kernel', 'kernel', '--ranks', '2')
        self.refused('--in-place does not apply to barrier', 'barrier', '--in-place')
        self.refused('--sizes cannot be combined', 'all', '--sizes', '8', '-b', '4')
        self.refused("--sizes ''", 'all', '--sizes', '8,,9')
        self.refused('at most 64 sizes', 'all', '--sizes', ','.join(['8'] * 65))
        self.refused('choose one', 'all', '--check', '--check-last')
        self.refused('--together, --asleep and --neutral: choose one', 'all', '--together', '--asleep')
        self.refused('--together, --asleep and --neutral: choose one', 'all', '--neutral', 'x', '--asleep')
        self.refused('--asleep does not apply to kernel', 'kernel', '--asleep')
        self.refused('would reduce a result', 'all_reduce', '--in-place', '--calls', '2')
        self.refused('unrecognized option', 'all', '--frobnicate')

    def test_help_and_version(self):
        done = self.bench('--help')
        for word in ('Examples:', '--asleep', '--check', 'RINGCOMM_BENCH_FLIP', 'busbw'):
            self.assertIn(word, done.stdout)
        self.assertRegex(self.bench('--version').stdout, r'^ringcomm-bench \d+\.\d+\.\d+\n$')

    def test_without_launcher(self):
        done = self.bench('barrier', status=1)
        self.assertIn('--ranks N', done.stderr)


class Info(unittest.TestCase):
    def info(self, *args, env=None, status=0):
        done = run(INFO, *args, env=env)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def rows(self, *args, env=None):
        out = self.info(*args, '--csv', '-', env=env).stdout
        self.assertEqual(out.splitlines()[0], 'section,name,value,default,origin,text')
        return list(csv.DictReader(io.StringIO(out)))

    def test_all_sections(self):
        sections = {r['section'] for r in self.rows()}
        self.assertEqual(sections,
                         {'library', 'feature', 'transport', 'protocol', 'algorithm', 'setting',
                          'launch', 'cpu', 'memory'})
        self.assertIn('# ringcomm-info: ', self.info().stdout)

    def test_one_section(self):
        rows = self.rows('--transports')
        self.assertEqual({r['section'] for r in rows}, {'transport'})
        self.assertLessEqual({'shm', 'tcp'}, {r['name'] for r in rows})
        for row in rows:
            self.assertIn(row['value'], ('usable', 'unusable'))
            self.assertNotEqual(row['text'], '')

    def test_too_small_for_a_transport(self):
        for limit, reason in ('-f 1000', 'File too large'), ('-n 10', 'descriptors'):
            done = run('sh', '-c', f'ulimit {limit} && exec "$0" --transports --csv -', INFO)
            rows = {r['name']: r for r in csv.DictReader(io.StringIO(done.stdout))}
            self.assertEqual(rows['shm']['value'], 'unusable', limit)
            self.assertIn(reason, rows['shm']['text'])
            self.assertEqual(rows['tcp']['value'], 'usable')

    def test_origin_of_settings(self):
        def timeout(env):
            return [r for r in self.rows('--settings', env=env) if r['name'] == 'RINGCOMM_TIMEOUT']
        self.assertEqual([r['origin'] for r in timeout({})], ['default'])
        row = timeout({'RINGCOMM_TIMEOUT': '77'})[0]
        self.assertEqual((row['value'], row['origin']), ('77', 'environment'))
        self.assertNotEqual(row['default'], '77')

    def protocols(self, **env):
        rows = self.rows('--protocols', env=env)
        self.assertEqual({r['section'] for r in rows}, {'protocol'})
        return {r['name']: r for r in rows}

    def test_protocols(self):
        rows = self.protocols()
        self.assertLessEqual({'eager.roomy', 'get.roomy', 'get.oversubscribed'}, set(rows))
        for row in rows.values():
            self.assertEqual(row['value'], row['default'])
            self.assertRegex(row['origin'], '^built in for ')
            self.assertNotEqual(row['text'], '')

    def test_origin_of_protocols(self):
        with tempfile.NamedTemporaryFile('w', suffix='.conf') as f:
            f.write('get=3M-5M  # here\neager=0-1000\n')
            f.flush()
            rows = self.protocols(RINGCOMM_TUNING=f.name, RINGCOMM_PROTOCOL='get.roomy=7K-')
        shown = {name: (r['value'], r['origin']) for name, r in rows.items()}
        self.assertEqual(shown['get.roomy'], ('7K-', 'RINGCOMM_PROTOCOL'))
        self.assertEqual(shown['get.oversubscribed'], ('3M-5M', 'RINGCOMM_TUNING'))
        self.assertEqual(shown['eager.roomy'], ('0-1000', 'RINGCOMM_TUNING'))
        self.assertEqual({n: r['default'] for n, r in rows.items()},
                         {n: r['default'] for n, r in self.protocols().items()})

    def test_wrong_protocol(self):
        rows = self.protocols(RINGCOMM_PROTOCOL='get=sometimes')
        self.assertEqual(list(rows), ['all'])
        self.assertIn("RINGCOMM_PROTOCOL: 'get=sometimes' is not like", rows['all']['text'])

    def test_secret_is_not_shown(self):
        out = self.info('--json', '-', env={'RINGCOMM_SECRET': 'opensesame'}).stdout
        self.assertNotIn('opensesame', out)
        names = [r['name'] for r in json.loads(out)['rows']]
        self.assertIn('RINGCOMM_SECRET', names)

    def test_cpus(self):
        row = [r for r in self.rows('--cpus') if r['name'] == 'allowed'][0]
        self.assertEqual(int(row['value']), len(os.sched_getaffinity(0)))

    def test_usage(self):
        self.assertIn("'foo': only options are allowed", self.info('foo', status=2).stderr)
        self.assertIn('both write to stdout',
                      self.info('--csv', '-', '--json', '-', status=2).stderr)
        self.assertIn('Examples:', self.info('--help').stdout)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)

# SPDX-License-Identifier: BSD-3-Clause
"""dist_info.py PYPROJECT FOLDER: the package's entry points in FOLDER, so that torch finds the
backend of a build folder in PYTHONPATH as it finds that of an installed package."""
import pathlib
import sys
import tomllib

project = tomllib.loads(pathlib.Path(sys.argv[1]).read_text())['project']
folder = pathlib.Path(sys.argv[2]) / f'{project["name"]}-{project["version"]}.dist-info'
folder.mkdir(exist_ok=True)
(folder / 'METADATA').write_text(
    f'Metadata-Version: 2.1\nName: {project["name"]}\nVersion: {project["version"]}\n')
groups = [f'[{group}]\n' + ''.join(f'{name} = {value}\n' for name, value in entries.items())
          for group, entries in project['entry-points'].items()]
(folder / 'entry_points.txt').write_text('\n'.join(groups))

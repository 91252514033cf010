"""Tasks, the runners that execute them, and the assignment of tasks to bands.

`craton.schedule.tasks` defines tasks and the runner protocol. A band is a NUMA node or a GPU. `assign` takes a task graph and the
capacities of the bands, and returns the band of every task and the order in which each band runs its tasks. Tasks that exchange
data share a band unless that would leave another band idle.
"""

from craton.schedule.assign import POLICIES, Assignment, Graph, PolicyName, assign, moved_bytes

__all__ = ["POLICIES", "Assignment", "Graph", "PolicyName", "assign", "moved_bytes"]

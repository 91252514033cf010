"""Tasks, who runs them, and which band runs which.

Tasks and what their runners promise are in `craton.schedule.tasks`. A band is a NUMA node or a GPU. `assign` takes a task graph
and the capacities of the bands, and returns the band of every task and the order in which each band runs its own: tasks that
exchange data run in one band where that keeps all bands busy.
"""

from craton.schedule.assign import POLICIES, Assignment, Graph, PolicyName, assign, moved_bytes

__all__ = ["POLICIES", "Assignment", "Graph", "PolicyName", "assign", "moved_bytes"]

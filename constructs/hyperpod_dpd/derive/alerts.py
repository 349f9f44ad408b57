"""Who publishes alerts."""

from typing import Final

PUBLISHERS: Final = {
    "aps": ("sns:Publish", "sns:GetTopicAttributes"),
    "cloudwatch": ("sns:Publish",),
    "budgets": ("sns:Publish",),
}
"""Services that publish to the alert topic, and with what: AMP's alert manager, alarms, and the monthly budget.

EventBridge is not among them: to an encrypted topic it publishes without telling its account, so that no condition could
keep the rules of other accounts out. What reacts to events publishes with its own role.
"""

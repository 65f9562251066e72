"""Every policy of the rule language as a rule sets it, and the lives that a rule may have."""

from __future__ import annotations

from proxyd.core.model.profile import PolicyName

SET_POLICY = {
    PolicyName.AUTO: "",
    PolicyName.INDEX: "SET POLICY INDEX",
    PolicyName.SUP: "SET POLICY SUP",
    PolicyName.FBSUP: "SET POLICY FBSUP",
    PolicyName.DOE: "SET POLICY DOE(3 PROBES PER 2 MINUTES, SPACING 20 SECONDS)",
    PolicyName.UNIFORM: "SET POLICY UNIFORM(45 SECONDS)",
    PolicyName.GOLDEN: "SET POLICY GOLDEN",
    PolicyName.MEMORYLESS: "SET POLICY MEMORYLESS",
    PolicyName.ADAPTIVE: "SET POLICY ADAPTIVE",
}
LIVES = {
    "no life": "",
    "window": "SET LIFE WINDOW(3)",
    "overwrite": "SET LIFE OVERWRITE",
    "target": "SET LIFE WINDOW(6) SET TARGET 80 %",
}

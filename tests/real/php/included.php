<?php
// SPDX-License-Identifier: MIT
return deeper($n);

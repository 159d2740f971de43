# count.awk - adds up what ctest printed (first file: which tests never started, which were skipped)
# and its LastTest.log (second file: what they said); prints the last line of tests/run.sh.
# Per test the last "N passed, N failed[, N skipped]" (or busted's "N successes / ...") counts. A test
# without such a line counts as one; a test that failed without saying so counts as one failure.

function number(text, word) {
    return match(text, "[0-9]+ " word) ? substr(text, RSTART) + 0 : 0
}

function close_test() {
    if (name == "") return
    if (name in was_skipped) { if (s == 0) s = 1 }
    else if (verdict == "Passed") { if (!counted) p = 1 }
    else if (f == 0) f = 1
    passed += p; failed += f; skipped += s
    if (f > 0) print "FAILED  " name "  (" p " passed, " f " failed)"
    if (s > 0) printf "%s", reasons == "" ? "SKIP    " name "\n" : reasons
    name = ""
}

NR == FNR {
    if (/\*\*\*Not Run/) { failed++; print "FAILED  " $4 "  (could not be started)" }
    if (/\*\*\*Skipped/) was_skipped[$4] = 1 # the log says "Passed"
    next
}

/^ *[0-9]+\/[0-9]+ Testing: / {
    close_test()
    name = $3; verdict = "Not Run"; p = f = s = counted = 0; reasons = ""; output = 0
    next
}
/^Output:$/ { output = 1; next }
/<end of output>$/ { output = 0; next }
output && /^[0-9]+ passed, [0-9]+ failed/ {
    p = number($0, "passed"); f = number($0, "failed"); s = number($0, "skipped"); counted = 1
}
output && /^[0-9]+ success(es)? \/ [0-9]+ failure/ {
    p = number($0, "success"); f = number($0, "failure") + number($0, "error"); s = number($0, "pending"); counted = 1
}
output && /^SKIP / { reasons = reasons "SKIP    " name "  " substr($0, 6) "\n" }
!output && /^Test (Passed|Failed)/ { verdict = $2; sub(/\.$/, "", verdict) }

END {
    close_test()
    if (built != 0) { failed++; print "FAILED  build (see the errors above)" }
    printf "%d passed, %d failed%s\n", passed, failed, skipped ? ", " skipped " skipped" : ""
    exit failed > 0
}

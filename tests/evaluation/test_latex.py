"""Tables of reports in LaTeX."""

from nmt_keras.markdown import escaped, latex_tables, table


def test_the_tables_of_a_text_become_tabulars_among_its_notes_and_their_characters_stay():
    cells = ["a_b | c", "50 %", "", "1.2 ± 0.3", "~^\\{x}$#&", "<1> `x`"]
    text = f"# title\n\n{table(['system', *'pqrst'], [map(escaped, cells), [*cells[1:], 'y']])}\n\np: a | b.\n\n"
    text += table(["k"], [["v"]]) + "\n"
    assert (
        latex_tables(text)
        == r"""% title

\begin{tabular}{lrrrrr}
\hline
system & p & q & r & s & t \\
\hline
a\_b $|$ c & 50 \% &  & 1.2 $\pm$ 0.3 & \textasciitilde{}\textasciicircum{}\textbackslash{}\{x\}\$\#\& & $<$1$>$ `x` \\
50 \% &  & 1.2 $\pm$ 0.3 & \textasciitilde{}\textasciicircum{}\{x\}\$\#\& & $<$1$>$ x & y \\
\hline
\end{tabular}

p: a $|$ b.

\begin{tabular}{l}
\hline
k \\
\hline
v \\
\hline
\end{tabular}
"""
    )

"""How a compressed net is stored: layers as whole numbers, message, graph; and the same as an exact
integer net.
"""

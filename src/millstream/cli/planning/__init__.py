"""How much servers and database some use of streams needs: measured unit costs, and a model of them."""

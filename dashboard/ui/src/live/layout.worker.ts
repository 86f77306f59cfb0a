/** Lays out a graph in layers, apart from the page, which goes on meanwhile. */
import { graphlib, layout } from '@dagrejs/dagre'

export interface LayoutRequest {
  number: number
  /** From top to bottom instead of from left to right: where the view is narrow. */
  isTall: boolean
  /** Room for the labels between two layers. */
  gap: number
  nodes: { id: string; width: number; height: number }[]
  edges: { from: string; to: string }[]
}

export interface LayoutAnswer {
  number: number
  isTall: boolean
  width: number
  height: number
  places: Record<string, { x: number; y: number }>
  /** The bends of each edge, in the order in which they were asked for. */
  lines: { x: number; y: number }[][]
}

self.onmessage = (event: MessageEvent<LayoutRequest>) => {
  const { number, isTall, gap, nodes, edges } = event.data
  const graph = new graphlib.Graph()
  graph.setGraph(isTall ? { rankdir: 'TB', nodesep: 14, ranksep: gap, edgesep: 6 } : { rankdir: 'LR', nodesep: 10, ranksep: gap, edgesep: 6 })
  graph.setDefaultEdgeLabel(() => ({}))
  for (const node of nodes) graph.setNode(node.id, { width: node.width, height: node.height })
  for (const edge of edges) graph.setEdge(edge.from, edge.to)
  layout(graph)
  const { width = 0, height = 0 } = graph.graph()
  const places: LayoutAnswer['places'] = {}
  for (const id of graph.nodes()) {
    const { x, y } = graph.node(id)
    places[id] = { x: x ?? 0, y: y ?? 0 }
  }
  const lines = edges.map((edge) => {
    const points = graph.edge(edge.from, edge.to)?.points as { x: number; y: number }[] | undefined
    return (points ?? []).map(({ x, y }) => ({ x, y }))
  })
  self.postMessage({ number, isTall, width, height, places, lines } satisfies LayoutAnswer)
}

import type { Screen } from '../routing/route'

export interface Entry {
  screen: Screen
  title: string
  /** Behind `g`, the key that leads there. */
  key: string
  /** What is looked at there, in a line. */
  text: string
}

export const ENTRIES: readonly Entry[] = [
  { screen: 'overview', title: 'Overview', key: 'o', text: 'rates, latencies, findings, the proxy itself' },
  { screen: 'connections', title: 'Connections', key: 'c', text: 'who is connected, and how' },
  { screen: 'upstreams', title: 'Upstreams', key: 'u', text: 'the brokers behind the proxy, and how they are' },
  { screen: 'frames', title: 'Frames', key: 'f', text: 'each frame, its fields and its bytes' },
  { screen: 'sequence', title: 'Sequence', key: 's', text: 'who sent what to whom' },
  { screen: 'messages', title: 'Messages', key: 'm', text: 'messages from publish to acknowledgement' },
  { screen: 'history', title: 'History', key: 'h', text: 'messages of the last hours, on all connections' },
  { screen: 'topology', title: 'Topology', key: 't', text: 'exchanges, bindings, queues, consumers' },
  { screen: 'findings', title: 'Findings', key: 'i', text: 'what an expert would point out' },
  { screen: 'rules', title: 'Rules', key: 'r', text: 'rules, and commands that they hold' },
  { screen: 'captures', title: 'Captures', key: 'a', text: 'recordings' },
  { screen: 'analytics', title: 'Analytics', key: 'n', text: 'the tables of the pipeline' },
  { screen: 'broker', title: 'Broker', key: 'b', text: 'the integrated broker' },
]

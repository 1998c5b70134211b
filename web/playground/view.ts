// A view of the page: what the address may choose.

export interface View {
  element: HTMLElement;
  /** The address of the view as it is. */
  address(): string;
  /** Shows what an address says. */
  open(hash: string): void;
}
